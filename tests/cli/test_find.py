from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from tests.find.networks import chain, moved, tuned
from weightspace.cli.main import main
from weightspace.find import CHANNELS


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    place = tmp_path / "nets"
    place.mkdir()
    base = chain()
    for name, network in {
        "base": base, "moved": moved(base), "[red]<b>tuned": tuned(base, 0.2), "alone": chain(3),
        "small": chain(sizes=(4, 6, 2)),
    }.items():  # fmt: skip
        torch.save(dict(network.state), place / f"{name}.pt")
    (place / "broken.pt").write_bytes(b"PK\x03\x04 cut short")
    return place


def test_embed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["embed", str(folder), "--json", "said.json"])
    assert "skipped: broken.pt" in capsys.readouterr().err
    said = json.loads(Path("said.json").read_text())
    assert said["channels"] == list(CHANNELS)
    assert [item["file"] for item in said["skipped"]] == ["broken.pt"]
    table = pq.read_table("vectors.parquet").to_pydict()
    assert table["name"] == said["networks"]
    main(["embed", str(folder), "--out", "v.npy"])
    vectors = np.load("v.npy", allow_pickle=False)
    assert json.loads(Path("v.names.json").read_text()) == table["name"]
    assert np.allclose(vectors, np.array(table["vector"]))
    rows = dict(zip(table["name"], vectors, strict=True))
    assert np.linalg.norm(rows["base.pt"] - rows["moved.pt"]) < 1e-4


def test_embed_with_a_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from weightspace.graph import NeuralGraph
    from weightspace.models import Predictor, Requirements, make_model, save_model

    network = chain()
    assert network.spec is not None
    model = make_model("stat-nn", Requirements.of([network.spec]), outputs=3)
    assert isinstance(model, Predictor)
    model.fit_normalisation(NeuralGraph.from_states(network.spec, [network.state]))
    save_model("model.safetensors", model, name="stat-nn", task={})
    main(["embed", str(folder), "--model", "model.safetensors", "--json", "said.json"])
    table = pq.read_table("vectors.parquet").to_pydict()
    rows = dict(zip(table["name"], table["vector"], strict=True))
    assert np.allclose(rows["base.pt"], rows["moved.pt"], atol=1e-4)
    assert not np.allclose(rows["base.pt"], rows["alone.pt"], atol=1e-4)
    skipped = json.loads(Path("said.json").read_text())["skipped"]
    assert ("small.pt" in rows) != ("small.pt" in {item["file"] for item in skipped})


def test_search(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["search", str(folder / "moved.pt"), str(folder), "--top", "3", "--json", "found.json"])
    out = capsys.readouterr().out
    assert "[red]<b>tuned.pt" in out
    found = json.loads(Path("found.json").read_text())["found"]
    assert [(item["name"], item["kind"]) for item in found] == [
        ("moved.pt", "copy"), ("base.pt", "permuted copy"), ("[red]<b>tuned.pt", "fine-tune"),
    ]  # fmt: skip


def test_lineage(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["lineage", str(folder), "--out", "tree.html", "--json", "tree.json"])
    out = capsys.readouterr().out
    assert "[red]<b>tuned.pt  fine-tune" in out
    assert "2 networks without kin" in out
    page = Path("tree.html").read_text()
    assert "&lt;b&gt;tuned.pt" in page
    assert "<b>" not in page
    assert "<svg" in page
    tree = json.loads(Path("tree.json").read_text())
    parents = {item["name"]: item["parent"] for item in tree["networks"]}
    assert parents["[red]<b>tuned.pt"] in {"base.pt", "moved.pt"}
    main(["lineage", str(folder), "--out", "again.json"])
    assert json.loads(Path("again.json").read_text()) == tree


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["embed", "nowhere"], "no such folder"),
        (["embed", "empty"], "at least one checkpoint"),
        (["embed", "nets", "--out", "v.csv"], ".parquet or .npy"),
        (["search", "nets", "nets"], "a checkpoint file"),
        (["search", "nets/none.pt", "nets"], "nets/none.pt"),
        (["search", "nets/broken.pt", "nets"], "broken.pt"),
        (["search", "nets/base.pt:x", "nets"], "called 'x'"),
        (["search", "nets/base.pt", "nets", "--top", "0"], "--top"),
        (["lineage", "nets", "--out", "tree.svg"], ".html or .json"),
    ],
)
def test_bad_input(
    folder: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder.parent / "empty").mkdir()
    (folder.parent / "empty" / "notes.txt").write_text("x")
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
