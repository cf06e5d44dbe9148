"""Lineages as long as the checkpoints of a long training, and names that are no text."""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from weightspace.cli.find import show_lineage
from weightspace.cli.main import main
from weightspace.find import Folder, Index, Lineage, Network, Problem, Step
from weightspace.find.index import Entry
from weightspace.find.kinship import Features, Kinship
from weightspace.find.rounding import Rounding
from weightspace.report.lineage_page import lineage_page
from weightspace.zoo.importing.found import Unit

FEATURES = Features(np.zeros(1), Rounding(), 0.0, np.zeros(1))


def chain(length: int) -> Lineage:
    """Each network a fine-tune of the one before."""
    entries = [
        Entry(n, f"{n}.pt", "", 1, 1, "", "", known=True, values=1, features=FEATURES)
        for n in range(length)
    ]
    kin = Kinship("fine-tune", 0.01, 0.9)
    later = itertools.pairwise(entries)
    return Lineage((Step(entries[0]), *(Step(new, old, kin, "centre") for old, new in later)))


def test_a_chain_is_longer_than_python_calls_are_deep() -> None:
    length = 2 * sys.getrecursionlimit()
    lineage = chain(length)
    root = lineage.roots[0]
    assert lineage.size(root.entry) == length
    assert [depth for depth, _ in lineage.walk(root)] == list(range(length))
    assert lineage_page(lineage, source="runs").count("<circle") == length


def test_names_of_a_deep_tree_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    show_lineage(chain(200))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 200
    assert all(f"{n}.pt" in line for n, line in enumerate(lines))


def test_names_of_a_deep_tree_end_before_its_columns() -> None:
    page = lineage_page(chain(100), source="runs")
    places = [float(x) for x in re.findall(r'<text x="([\d.]+)"', page)]
    names = [x for x in places if x not in {620.0, 850.0}]
    assert max(names) < 300
    assert len(set(names)) == 100


def test_walking_goes_down_a_branch_before_the_next_one() -> None:
    entries = [step.entry for step in chain(4).steps]
    near, far = Kinship("fine-tune", 0.1, 0.9), Kinship("fine-tune", 0.2, 0.9)
    steps = (
        Step(entries[0]),
        Step(entries[1], entries[0], far),
        Step(entries[2], entries[0], near),
        Step(entries[3], entries[2], far),
    )
    lineage = Lineage(steps)
    assert [step.entry.number for _, step in lineage.walk(steps[0])] == [0, 2, 3, 1]
    assert [lineage.size(entry) for entry in entries] == [4, 1, 2, 1]


def test_names_that_are_no_text_are_skipped_in_every_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets").mkdir()
    state = {"0.weight": torch.randn(8, 4), "1.weight": torch.randn(2, 8)}
    save_file(state, "nets/a.safetensors")
    Path(os.fsdecode(b"nets/\xff.safetensors")).write_bytes(Path("nets/a.safetensors").read_bytes())
    for changes in ("2 new", "2 as before"):
        main(["embed", "nets", "--json", "said.json"])
        assert changes in capsys.readouterr().out
        said = json.loads(Path("said.json").read_text())
        assert said["networks"] == ["a.safetensors"]
        assert "UTF-8" in said["skipped"][0]["reason"]
    assert Path("nets/.weightspace-index.parquet").is_file()


def test_what_was_read_before_an_interruption_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        state = {"0.weight": torch.randn(8, 4), "1.weight": torch.randn(2, 8)}
        save_file(state, tmp_path / f"{number}.safetensors")
    reading, times = Folder.read, iter(range(10))

    def read(folder: Folder, unit: Unit) -> tuple[list[Network], list[Problem]]:
        if next(times) == 2:
            raise KeyboardInterrupt
        return reading(folder, unit)

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "read", read)
        with pytest.raises(KeyboardInterrupt):
            Index.of(Folder(tmp_path))
    index = Index.of(Folder(tmp_path))
    assert (index.changes.kept, index.changes.added) == (2, 2)
    assert [entry.number for entry in index.entries] == [0, 1, 2, 3]
    assert [entry.file for entry in index.entries] == [f"{n}.safetensors" for n in range(4)]
    assert list(tmp_path.glob(".*.tmp")) == []
