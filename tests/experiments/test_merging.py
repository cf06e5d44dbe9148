"""The experiment on merging, on networks that train in a second."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from weightspace.experiments import Preset, reproduce
from weightspace.experiments.merging import CnnMerging, MlpMerging

TINY: dict[str, Any] = {
    "images": "digits",
    "widths": [64],
    "train": 800,
    "test": 300,
    "examples": 200,
    "epochs": 6,
    "batch_size": 32,
    "learning_rate": 3e-3,
}


class TinyMlps(MlpMerging):
    """On scikit-learn's digits, whose images have 64 values."""

    presets: ClassVar = {"cpu": Preset("", "", TINY, seeds=(0,))}

    def module(self, plan: Any) -> Any:
        module = super().module(plan)
        module[1] = type(module[1])(64, plan["widths"][0])
        return module


class TinyCnns(CnnMerging):
    """On scikit-learn's digits."""

    presets: ClassVar = {"cpu": Preset("", "", {**TINY, "widths": [16, 16]}, seeds=(0,))}


def test_alignment_lowers_the_barrier_of_multilayer_perceptrons(tmp_path: Path) -> None:
    done = reproduce(TinyMlps(), "cpu", tmp_path, methods=["as-they-are", "weights", "activations"])
    barrier = {found.method: found.mean for found in done.results.methods}
    assert not done.failures
    assert barrier["weights"] < 0.5 * barrier["as-they-are"]
    assert barrier["activations"] < 0.5 * barrier["as-they-are"]


def test_statistics_are_repaired_between_convolutional_networks(tmp_path: Path) -> None:
    done = reproduce(TinyCnns(), "cpu", tmp_path, methods=["weights", "weights-repaired"])
    rows = {found.method: found.rows[0] for found in done.results.methods}
    assert not done.failures
    assert rows["weights-repaired"]["loss_between"] < rows["weights"]["loss_between"]


def test_presets_are_plain() -> None:
    for kind in (MlpMerging, CnnMerging):
        assert {"cpu", "full"} <= set(kind.presets)
        assert replace(kind.presets["cpu"], seeds=(0,)).settings["train"] > 0
