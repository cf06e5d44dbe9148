"""Zoos as datasets of the hub, as data frames and in notebooks."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.importers.test_hub import cache, repository  # noqa: F401 (a fixture)
from weightspace.cli.main import main
from weightspace.errors import DataError, FileError
from weightspace.graph import chain_spec
from weightspace.graph.display import html_table
from weightspace.testing import sample_graph
from weightspace.zoo import Zoo, ZooWriter, verify
from weightspace.zoo.exporting import export_zoo
from weightspace.zoo.importing import import_zoo


@pytest.fixture
def zoo(tmp_path: Path) -> Zoo:
    spec = chain_spec([2, 3, 1], activations="relu")
    states = {p.name: torch.randn(5, *p.shape) for p in spec.parameters}
    writer = ZooWriter(tmp_path / "z", specs=[spec], recipe={"name": "five"})
    writer.write_part(0, states, [{"label": i, "file": f"<b>{i}</b>"} for i in range(5)])
    return writer.finish(splits={"train": [0, 1, 2], "test": [3, 4]})


def test_a_dataset_comes_back_as_it_went(zoo: Zoo, tmp_path: Path) -> None:
    export_zoo(zoo, tmp_path / "d", format="hf")
    again, report = import_zoo(tmp_path / "d", tmp_path / "again")
    assert report.layout == "hf"
    assert report.networks == 5
    assert again.splits == zoo.splits
    for name, values in zoo.states(range(5)).items():
        assert torch.equal(values, again.states(range(5))[name])
    assert np.array_equal(again.column("label"), zoo.column("label"))
    assert again.split("test").tolist() == [3, 4]
    assert verify(again.path).ok


def test_a_dataset_of_the_hub(
    zoo: Zoo,
    tmp_path: Path,
    cache: Path,  # noqa: F811
) -> None:
    snapshot = repository(cache, "org/five", "datasets")
    export_zoo(zoo, tmp_path / "d", format="hf")
    blobs = snapshot.parents[1] / "blobs"
    blobs.mkdir()
    for number, path in enumerate(sorted(p for p in (tmp_path / "d").rglob("*") if p.is_file())):
        place = snapshot / path.relative_to(tmp_path / "d")
        place.parent.mkdir(parents=True, exist_ok=True)
        path.rename(blobs / str(number))
        place.symlink_to(blobs / str(number))
    assert len(Zoo.open("hf://datasets/org/five")) == 5
    main(["zoo", "import", "hf://datasets/org/five", "--out", str(tmp_path / "again")])
    again = Zoo.open(tmp_path / "again")
    assert verify(again.path).ok
    assert not any(path.is_symlink() for path in again.path.iterdir())


def test_tables_without_weights_are_refused(zoo: Zoo, tmp_path: Path) -> None:
    export_zoo(zoo, tmp_path / "d", format="hf")
    next((tmp_path / "d").glob("*.safetensors")).unlink()
    with pytest.raises(FileError, match="whole dataset"):
        import_zoo(tmp_path / "d", tmp_path / "again")


def test_rows_as_a_data_frame(zoo: Zoo) -> None:
    pytest.importorskip("pandas")
    frame = zoo.to_pandas()
    assert frame["label"].tolist() == [0, 1, 2, 3, 4]
    assert len(frame) == len(zoo)


def test_without_pandas(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(DataError, match=r"weightspace\[pandas\]"):
        zoo.to_pandas()


def test_notebooks_show_tables_with_escaped_texts(zoo: Zoo) -> None:
    shown = zoo._repr_html_()
    assert "&lt;b&gt;0&lt;/b&gt;" in shown
    assert "<b>" not in shown
    spec = chain_spec([2, 3, 1], activations="relu", layer_names=["<i>", "b"])
    for text in (spec._repr_html_(), sample_graph(spec, 3)._repr_html_()):
        assert "<i>" not in text
        assert "&lt;i&gt;" in text
    assert "3 networks" in sample_graph(spec, 3)._repr_html_()
    assert "... and 70 more" in html_table("t", ["a"], [[i] for i in range(100)])
