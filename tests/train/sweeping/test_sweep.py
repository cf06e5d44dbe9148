"""Sweeps: complete, each run once, the same whatever happened."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.train.sweeping.tiny import GRAPHS, Backwards, images, rows, run, sweep
from weightspace.errors import DataError, FileError, GraphError, ModelError
from weightspace.relational import complete, expander, ring
from weightspace.relational.analysis import analyse, read_results
from weightspace.train.sweeping import CnnNetwork, MlpNetwork, Training, run_sweep, wirings
from weightspace.train.sweeping.halving import rungs, survivors
from weightspace.train.sweeping.table import only_writer

ROOT = Path(__file__).resolve().parents[3]


def test_every_run_has_its_rows_once_and_analyse_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "runs.parquet"
    summary = run(path)
    assert (summary.new, summary.runs) == (8, {"complete": 2, "sweep": 6})
    found = rows(path)
    assert len(found) == 8 * 2  # after epochs 1 and 2
    assert len({(r["graph"], r["seed"], r["epoch"]) for r in found}) == 16
    for row in found:
        assert row["asked"] <= row["got"] < 1.2 * row["asked"]
        assert 0 <= row["error"] < 90
    dense = next(row for row in found if row["kind"] == "complete")
    assert dense["flops"] == dense["asked"] == 16 * 8 + 2 * 64 + 3 * 8
    runs = read_results(path)[0]
    assert (runs.name, runs.errors.shape, len(runs.complete)) == ("mlp", (3, 2), 2)
    assert runs.by_epoch is not None
    assert runs.by_epoch.epochs == (1, 2)
    assert analyse([runs]).networks["mlp"].complete is not None
    again = path.read_bytes()
    assert run(path).new == 0
    assert path.read_bytes() == again


def test_more_can_be_added_and_what_is_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "runs.parquet"
    run(path, wirings=GRAPHS[:2], seeds=1)
    before = rows(path)
    assert run(path).new == 6
    networks = [MlpNetwork(8, layers=2), CnnNetwork(8, stages=1)]
    assert run(path, networks=networks, seeds=1).new == 4
    after = rows(path)
    assert all(row in after for row in before)
    whole = tmp_path / "whole.parquet"
    run(whole)
    assert [row for row in after if row["network"] == "mlp"] == rows(whole)


@pytest.mark.slow
@pytest.mark.parametrize("script", ["killing", "engines"])
def test_killed_and_on_other_engines_it_is_the_same(script: str, tmp_path: Path) -> None:
    # In a process of its own, for it forks, and Ray leaves threads and settings behind.
    command = [sys.executable, "-m", f"tests.train.sweeping.{script}", str(tmp_path)]
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert "same" in ended.stdout


def test_order_does_not_matter(tmp_path: Path) -> None:
    run(tmp_path / "a.parquet")
    run_sweep(sweep(), tmp_path / "b.parquet", engine=Backwards())
    assert rows(tmp_path / "a.parquet") == rows(tmp_path / "b.parquet")


def test_several_sets_of_images_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "runs.parquet"
    run(path, data=[images("a"), images("b", 5)], seeds=1)
    assert [own.name for own in read_results(path)] == ["mlp on a", "mlp on b"]


def test_halving_goes_on_with_the_better_graphs_of_whole_trainings(tmp_path: Path) -> None:
    training = Training(epochs=4, batch=16)
    run(tmp_path / "whole.parquet", training=training)
    path = tmp_path / "halved.parquet"
    summary = run(path, training=training, halving=2)
    assert summary.stopped == {"mlp": 2}
    whole = {
        (r["kind"], r["graph"], r["seed"], r["epoch"]): r for r in rows(tmp_path / "whole.parquet")
    }
    halved = rows(path)
    for row in halved:
        other = whole[row["kind"], row["graph"], row["seed"], row["epoch"]]
        assert (row["error"], row["loss"]) == (other["error"], other["loss"])
    at_first = {
        wired.name: np.mean([whole["sweep", wired.name, s, 1]["validation_error"] for s in (0, 1)])
        for wired in GRAPHS
    }
    ended = {r["graph"] for r in halved if r["kind"] == "sweep" and r["epoch"] == 4}
    two = survivors(at_first, 2)
    assert len(ended) == 1
    assert ended < two
    assert {r["stop"] for r in halved if r["graph"] not in two and r["kind"] == "sweep"} == {1}
    found = read_results(path)[0]
    assert (len(found.graphs), found.stopped) == (1, 2)
    assert run(path, training=training, halving=2).new == 0


def test_rungs_and_survivors() -> None:
    assert rungs(10, 3) == (1, 3, 10)
    assert rungs(1, 3) == (1,)
    assert survivors({"a": np.nan, "b": 2.0, "c": 1.0}, 3) == {"c"}
    with pytest.raises(ModelError, match="halving factor: expected a value from 2"):
        rungs(9, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"training": Training(epochs=3)}, 'expected training {"batch"'),
        ({"data": [images(size=5)]}, "expected data"),
        ({"networks": [MlpNetwork(8)]}, "expected networks"),
        ({"halving": 2}, "halving 2, found"),
    ],
)
def test_tables_of_other_sweeps_are_refused(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    path = tmp_path / "runs.parquet"
    run(path, wirings=GRAPHS[:1], seeds=1)
    before = path.read_bytes()
    with pytest.raises(FileError, match="holds another sweep") as caught:
        run(path, **changes)
    assert message in str(caught.value)
    assert path.read_bytes() == before


def test_other_graphs_of_the_same_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.parquet"
    run(path, wirings=GRAPHS[:1], seeds=1)
    other = wirings([expander(8, 3, seed=0)])[0]
    renamed = type(other)(GRAPHS[0].name, other.graph)
    with pytest.raises(FileError, match="another graph of this name"):
        run(path, wirings=[renamed])


def test_other_files_and_writers_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.parquet"
    path.write_text("not a table")
    with pytest.raises(FileError, match="expected the runs of a sweep, or nothing"):
        run(path)
    assert path.read_text() == "not a table"
    pq.write_table(pa.table({"network": ["mlp"]}), path)
    with pytest.raises(FileError, match="expected the runs of a sweep, or nothing"):
        run(path)
    with only_writer(path), pytest.raises(FileError, match="no other sweep is writing"):
        run(path)
    assert not [*tmp_path.glob(".*")]


def test_sweeps_that_cannot_be_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.parquet"
    with pytest.raises(GraphError, match="at most 8 nodes, the number of channels, found 9 nodes"):
        run(path, wirings=wirings([ring(9)]))
    with pytest.raises(ModelError, match="graphs of kind 'sweep', found controls alone"):
        run(path, wirings=wirings([complete(8)], kind="complete"))
    with pytest.raises(DataError, match="networks of a sweep: expected at least one"):
        sweep(networks=[])
    with pytest.raises(GraphError, match=r"of different names, found 2 named ring\(8\)"):
        wirings([ring(8), ring(8)])
    with pytest.raises(ModelError, match="seeds: expected a value from 1"):
        sweep(seeds=0)
    assert not path.exists()
