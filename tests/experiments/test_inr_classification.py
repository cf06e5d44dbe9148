"""The experiment on implicit networks, on a small scale."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from weightspace.experiments import Preset, reproduce
from weightspace.experiments.inr_classification import InrClassification
from weightspace.experiments.inr_classification_images import DigitsInrs, FashionInrs, MnistInrs
from weightspace.experiments.inr_classification_sizes import PUBLISHED_SIZE, SMALL
from weightspace.models import MODELS, Requirements, make_model
from weightspace.zoo import siren_spec

TINY = {"hidden": [4, 4], "steps": 3, "refits": 1, "train_images": 60, "test_images": 20}


class Tiny(DigitsInrs):
    """Digits in seconds."""

    presets = {  # noqa: RUF012
        "cpu": replace(
            DigitsInrs.presets["cpu"],
            settings={**DigitsInrs.presets["cpu"].settings, **TINY, "epochs": 1},
        )
    }


def test_jobs_give_a_table(tmp_path: Path) -> None:
    done = reproduce(Tiny(), "cpu", tmp_path, methods=["flat-mlp", "stat-nn"], seeds=[0, 1])
    assert not done.failures
    assert {result.method for result in done.results.methods} == {"flat-mlp", "stat-nn"}
    for result in done.results.methods:
        assert 0 <= result.mean <= 100
        assert len(result.rows) == 2
    again = reproduce(Tiny(), "cpu", tmp_path, methods=["flat-mlp"], seeds=[0])
    assert again.results.methods == done.results.methods


@pytest.mark.parametrize("experiment", [DigitsInrs(), MnistInrs(), FashionInrs()])
def test_every_method_can_be_made(experiment: InrClassification) -> None:
    for preset in experiment.presets.values():
        assert isinstance(preset, Preset)
        needs = Requirements.of([siren_spec((2, *preset.settings["hidden"], 1))])
        for method in experiment.methods(preset):
            assert method in MODELS
            make_model(method, needs, outputs=10, options=SMALL[method])
    assert set(experiment.published) <= set(SMALL)
    assert set(PUBLISHED_SIZE) == set(SMALL)
