"""``weightspace relational sweep``: what it writes, and what it says of bad input."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.train.sweeping.tiny import images, rows
from weightspace.cli.main import main

MODULE = """
from torch import nn


def net():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 3)
    )
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with images and a network."""
    monkeypatch.chdir(tmp_path)
    data = images()
    arrays = {
        f"{key}_{part}": own
        for part in ("train", "test")
        for key, own in (("x", data.images[part][:, 0]), ("y", data.labels[part]))
    }
    np.savez("dots.npz", **arrays)
    Path("mynets.py").write_text(MODULE)
    return tmp_path


def sweep(*words: object) -> None:
    start = ["relational", "sweep", "--out", "r.parquet", "--data", "dots.npz", "--workers", "1"]
    start += ["--graphs", "plane:3:8", "--epochs", "2", "--batch", "16", "--seeds", "2"]
    main([*start, *map(str, words)])


def test_a_sweep_is_made_extended_and_analysed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep("--controlled", 2)
    found = rows(folder / "r.parquet")
    assert {row["kind"] for row in found} == {"sweep", "complete", "null"}
    assert {row["width"] for row in found if row["kind"] == "complete"} == {8}
    sweep("--networks", "mlp", "mynets:net", "--controls", "complete", "--json", "s.json")
    said = json.loads(Path("s.json").read_text())
    assert said["new"] == 8
    assert all(row in rows(folder / "r.parquet") for row in found)
    capsys.readouterr()
    main(["relational", "analyse", "r.parquet", "--json", "a.json", "--out", "report"])
    analysis = json.loads(Path("a.json").read_text())
    assert set(analysis) == {"mlp", "net"}
    assert analysis["mlp"]["graphs"] == 3
    assert [own["kind"] for own in analysis["mlp"]["controls"]] == ["null"]
    assert Path("report/report.html").is_file()


def test_halving_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep("--halving", "--factor", 2, "--controls", "complete")
    assert "stopped by halving" in capsys.readouterr().out
    main(["relational", "analyse", "r.parquet", "--json", "a.json", "--out", "."])
    assert json.loads(Path("a.json").read_text())["mlp"]["stopped_graphs"] == 1
    assert "Halving stopped some graphs early (1 of mlp)" in Path("report.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--networks", "resnet"], "network: expected mlp, cnn or package.module:name"),
        (["--networks", "nothing:here"], "nothing:here: expected package.module:name of an nn."),
        (["--graphs", "plane"], "graphs: expected published-52"),
        (["--width", "5"], "expected a graph of at most 5 nodes, the number of channels, found 8"),
        (["--data", "faces"], "images: expected one of digits"),
        (["--controls", "all"], "controls: expected some of complete"),
        (["--epochs", "0"], "epochs: expected a value from 1"),
        (["--halving", "--factor", "1"], "halving factor: expected a value from 2"),
        (["--out", "dots.npz"], "dots.npz: expected the runs of a sweep, or nothing"),
    ],
)
def test_bad_input_ends_with_one_message(
    folder: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        sweep(*words)
    assert caught.value.code == 2
    told = capsys.readouterr().err
    assert "Traceback" not in told
    assert message in " ".join(told.split())
    assert not (folder / "r.parquet").exists()
