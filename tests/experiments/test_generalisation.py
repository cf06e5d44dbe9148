"""The experiments on generalisation, with networks that were hardly trained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from weightspace.experiments import reproduce
from weightspace.experiments.generalisation import TREES, Generalisation
from weightspace.experiments.generalisation_cnn_zoo import SmallCnnGeneralisation
from weightspace.experiments.generalisation_transformers import TransformerGeneralisation
from weightspace.experiments.generalisation_wild_park import WildParkGeneralisation
from weightspace.models import MODELS

FEW: dict[str, Any] = {"images": "digits", "updates": 6, "checkpoints": 2, "measured": 100}
EVERY = (SmallCnnGeneralisation, WildParkGeneralisation, TransformerGeneralisation)


def tiny(experiment: type[Generalisation], **zoo: Any) -> Generalisation:
    """The experiment on networks that take seconds."""
    preset = experiment.presets["cpu"]
    other = {**FEW, "side": 16, "count": 8, "siblings": 4, "seed": 1}
    settings = {**preset.settings, "zoo": {**FEW, **zoo}, "other": other, "epochs": 1}
    kind = type("Tiny", (experiment,), {"presets": {"cpu": replace(preset, settings=settings)}})
    return kind()


def run(experiment: Generalisation, folder: Path, methods: list[str]) -> dict[str, dict[str, Any]]:
    done = reproduce(experiment, "cpu", folder, methods=methods, seeds=[0])
    assert not done.failures, done.failures
    return {result.method: result.rows[0] for result in done.results.methods}


@pytest.mark.slow
def test_small_cnns(tmp_path: Path) -> None:
    experiment = tiny(
        SmallCnnGeneralisation, side=16, activations=["relu"], count=16, siblings=16, batch=16
    )
    methods = [TREES, "stat-nn", "probe-only", "nfn-hnp"]
    rows = run(experiment, tmp_path, methods)
    assert set(rows) == set(methods)
    for row in rows.values():
        assert -1 <= row["tau"] <= 1
        assert "r2" in row


@pytest.mark.slow
def test_wild_park_and_another_family(tmp_path: Path) -> None:
    experiment = tiny(WildParkGeneralisation, side=16, count=10, siblings=1, batch=16)
    rows = run(experiment, tmp_path, [TREES, "ng-gnn-linear"])
    for row in rows.values():
        assert -1 <= row["other_tau"] <= 1


@pytest.mark.slow
def test_transformers(tmp_path: Path) -> None:
    experiment = tiny(TransformerGeneralisation, side=14, count=12, siblings=6, shapes=2, batch=16)
    rows = run(experiment, tmp_path, [TREES, "ng-gnn-linear"])
    assert set(rows) == {TREES, "ng-gnn-linear"}


@pytest.mark.parametrize("experiment", EVERY)
def test_methods_are_models_and_recipes_can_be_made(experiment: type[Generalisation]) -> None:
    for preset in experiment.presets.values():
        methods = experiment().methods(preset)
        assert set(methods) - {TREES} <= set(MODELS)
        assert experiment().recipe(preset).parts() > 2
