"""Running an experiment: each job once, a table whatever happened."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from weightspace.errors import DataError, WeightspaceError
from weightspace.experiments import Experiment, Preset, Row, reproduce


class Guessing(Experiment):
    """Three methods of known quality, one of which cannot read its data."""

    name = "guessing"
    task = "Guess a number."
    paper = "none"
    metric = "error"
    higher_is_better = False
    published: ClassVar = {"good": "0.1"}
    presets: ClassVar = {"cpu": Preset("Numbers.", "a moment", {"scale": 2.0}, seeds=(0, 1))}

    def methods(self, preset: Preset) -> Sequence[str]:
        return ("bad", "good", "broken")

    def prepare(self, preset: Preset, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "numbers").write_text("1")

    def run(self, method: str, seed: int, preset: Preset, folder: Path) -> Row:
        with (folder / "log").open("a") as log:
            log.write(f"{method} {seed}\n")
        if method == "broken":
            raise DataError("numbers", expected="even ones", found="odd ones")
        return {"error": (1.0 if method == "bad" else 0.25) * preset.settings["scale"] + seed}


def test_the_table_has_means_deviations_and_published_values(tmp_path: Path) -> None:
    done = reproduce(Guessing(), "cpu", tmp_path)
    assert [result.method for result in done.results.methods] == ["good", "bad"]
    assert done.results.methods[0].summary("error") == (1.0, pytest.approx(0.5**0.5))
    assert [(failure.method, failure.seed) for failure in done.failures] == [
        ("broken", 0),
        ("broken", 1),
    ]
    table = (tmp_path / "results" / "cpu.md").read_text()
    assert "| good | 1.00 ± 0.71 |" in table
    assert "| 0.1 | 2 |" in table
    kept = json.loads((tmp_path / "results" / "cpu.json").read_text())
    assert kept["methods"][0]["error"] == {"mean": 1.0, "deviation": pytest.approx(0.5**0.5)}


def test_a_finished_job_is_not_run_again_and_a_failed_one_is(tmp_path: Path) -> None:
    reproduce(Guessing(), "cpu", tmp_path, methods=["good"], seeds=[0])
    reproduce(Guessing(), "cpu", tmp_path, jobs=2)
    reproduce(Guessing(), "cpu", tmp_path)
    log = (tmp_path / "work" / "cpu" / "log").read_text().splitlines()
    assert sorted(log) == sorted(
        ["good 0", "good 1", "bad 0", "bad 1", *(f"broken {s}" for s in (0, 1, 0, 1))]
    )


def test_unknown_names_are_said(tmp_path: Path) -> None:
    with pytest.raises(WeightspaceError, match="bad, good, broken"):
        reproduce(Guessing(), "cpu", tmp_path, methods=["worse"])
    with pytest.raises(WeightspaceError, match="one of cpu"):
        reproduce(Guessing(), "full", tmp_path)
