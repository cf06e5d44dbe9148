"""Results from files, and what is said of files that hold none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.data import shared_data
from tests.relational.analysis.studies import study, write_rows
from weightspace.errors import DataError, FileError
from weightspace.relational import published_grid
from weightspace.relational.analysis import NetworkRuns, group_runs, read_results


def test_a_table_of_runs_becomes_the_study(tmp_path: Path) -> None:
    runs = study(7, 3)
    (found,) = read_results(write_rows(tmp_path / "runs.parquet", runs))
    assert found.graphs == runs.graphs
    assert found.name == "net"
    for name in ("places", "degrees", "errors", "complete"):
        assert np.array_equal(getattr(found, name), getattr(runs, name))
    assert np.isnan(found.nodes).all()
    assert found.by_epoch is None


def test_a_folder_holds_parts_of_several_networks(tmp_path: Path) -> None:
    write_rows(tmp_path / "a" / "0.parquet", study(5, 2, name="b"))
    write_rows(tmp_path / "a" / "1.parquet", study(6, 3, name="a"))
    found = read_results(tmp_path)
    assert [(runs.name, *runs.errors.shape) for runs in found] == [("b", 5, 2), ("a", 6, 3)]


def columns(**changes: object) -> dict[str, np.ndarray]:
    count = 6
    made = {
        "network": np.array(["n"] * count, dtype=object),
        "graph": np.array(list("aabbcc"), dtype=object),
        "clustering": np.repeat([0.1, 0.2, 1.0], 2),
        "path_length": np.repeat([2.0, 1.5, 1.0], 2),
        "degree": np.repeat([4.0, 5.0, 6.0], 2),
        "seed": np.array([1.0, 0.0, 0.0, 1.0, 0.0, 1.0]),
        "error": np.arange(6.0),
    }
    return made | {name: np.array(value) for name, value in changes.items()}


def test_rows_in_any_order_find_their_graph_and_seed() -> None:
    (runs,) = group_runs(columns())
    assert runs.errors.tolist() == [[1, 0], [2, 3]]
    assert runs.complete.tolist() == [4, 5]


def test_missing_runs_are_nan() -> None:
    rows = {name: values[1:] for name, values in columns().items()}
    (runs,) = group_runs(rows)
    assert np.isnan(runs.errors[0, 1])
    assert runs.means.tolist() == [1, 2.5]


def test_epochs_and_controls_are_kept_apart() -> None:
    kind = np.array(["sweep"] * 4 + ["null"] * 2, dtype=object)
    control_of = np.array([""] * 4 + ["a"] * 2, dtype=object)
    (runs,) = group_runs(columns(kind=kind, control_of=control_of))
    assert not len(runs.complete)
    assert runs.controls["null"].errors.tolist() == [[4, 5]]
    assert runs.controls["null"].graphs == ("a",)
    (runs,) = group_runs(columns(seed=[0] * 6, epoch=[5, 1] * 3))
    assert runs.by_epoch is not None
    assert runs.by_epoch.epochs == (1, 5)
    assert runs.by_epoch.errors[:, :, 0].tolist() == [[1, 3], [0, 2]]
    assert runs.errors[:, 0].tolist() == [0, 2]
    assert runs.complete.tolist() == [4]


def test_tables_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(FileError, match="one row for each graph, seed and epoch, found 2 of"):
        group_runs(columns(seed=[0] * 6))
    with pytest.raises(FileError, match="rows of runs, found an empty table"):
        group_runs({name: values[:0] for name, values in columns().items()})
    with pytest.raises(FileError, match="rows of kind 'sweep', found 'null'"):
        group_runs(columns(kind=np.array(["null"] * 6, dtype=object)))
    with pytest.raises(FileError, match="at least one run with an error at the end"):
        group_runs(columns(error=[np.nan] * 4 + [4, 5]))


def test_graphs_that_never_finished_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    (runs,) = group_runs(columns(error=[0, 1, np.nan, np.nan, 4, 5]))
    assert runs.graphs == ("a",)
    assert runs.errors.tolist() == [[1, 0]]
    assert "1 of 2 graphs are left out" in caplog.text
    with pytest.raises(DataError, match="a run of every graph, found none of g1"):
        NetworkRuns(
            "n", ("g0", "g1"), np.zeros((2, 2)), np.ones(2), np.ones(2),
            np.array([[1, 2], [np.nan, np.nan]]),
        )  # fmt: skip


def test_unreadable_results_say_why(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"missing\.parquet: expected a Parquet file.*nothing"):
        read_results(tmp_path / "missing.parquet")
    with pytest.raises(FileError, match=r"a folder with \.parquet files of runs, found none"):
        read_results(tmp_path)
    (tmp_path / "text.parquet").write_text("error,graph\n1,a\n")
    with pytest.raises(FileError, match="expected a Parquet file of runs"):
        read_results(tmp_path / "text.parquet")
    pq.write_table(pa.table({"network": ["a"], "error": [1.0]}), tmp_path / "few.parquet")
    with pytest.raises(FileError, match="no column graph, clustering"):
        read_results(tmp_path / "few.parquet")
    whole = write_rows(tmp_path / "cut.parquet", study(5, 2))
    whole.write_bytes(whole.read_bytes()[:-100])
    with pytest.raises(FileError, match="expected a Parquet file of runs"):
        read_results(whole)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"error": "low"}, "column error: expected a column of numbers, found string"),
        ({"network": 3}, "column network: expected a column of texts, found int64"),
        ({"clustering": float("nan")}, "column clustering: expected finite numbers, found nan"),
        ({"error": float("inf")}, "column error: expected finite numbers, found inf in row 0"),
    ],
)
def test_columns_of_the_wrong_kind_are_refused(
    tmp_path: Path, extra: dict[str, object], message: str
) -> None:
    path = write_rows(tmp_path / "runs.parquet", study(5, 2), **extra)
    with pytest.raises(FileError, match=message):
        read_results(path)


def test_names_may_not_be_missing(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "runs.parquet", study(5, 2))
    table = pq.read_table(path)
    names = pa.array([None, *table["graph"].to_pylist()[1:]])
    pq.write_table(table.set_column(1, "graph", names), path)
    with pytest.raises(FileError, match="column graph: expected a name in every row, found 1"):
        read_results(path)
    few = {name: values for name, values in columns().items() if name != "degree"}
    with pytest.raises(FileError, match=r"mine: expected the columns .*no column degree"):
        group_runs(few, "mine")


def test_archives_that_are_not_the_published_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.npz"
    with pytest.raises(FileError, match=r"published arrays .*nothing"):
        read_results(path)
    path.write_bytes(b"no archive")
    with pytest.raises(FileError, match="published arrays"):
        read_results(path)
    np.savez(path, x=np.zeros(3))
    with pytest.raises(FileError, match="arrays such as mlp_cifar10_top1_error, found x"):
        read_results(path)
    np.savez(path, mlp_cifar10_top1_error=np.zeros((3, 2)))
    with pytest.raises(FileError, match="graphs_n64_3942: expected numbers in 2 dimensions"):
        read_results(path)
    np.savez(path, mlp_cifar10_top1_error=np.zeros((3, 2)), graphs_n64_3942=np.zeros((4, 6)))
    with pytest.raises(FileError, match="a row of errors for every graph"):
        read_results(path)


def test_published_graphs_carry_the_names_of_the_generator() -> None:
    runs = {runs.name: runs for runs in read_results(shared_data("graph2nn/published.npz"))}
    assert runs["resnet34"].graphs == tuple(graph.name for graph in published_grid("n64-52"))
    assert set(runs["resnet34"].graphs) < set(runs["mlp"].graphs)


def test_lengths_must_agree() -> None:
    runs = study(5, 2)
    with pytest.raises(DataError, match="at least one graph"):
        NetworkRuns("n", runs.graphs[1:], runs.places, runs.degrees, runs.nodes, runs.errors)
    part = runs.subset([1, 3])
    assert part.graphs == ("g1", "g3")
    assert np.array_equal(part.errors, runs.errors[[1, 3]])
