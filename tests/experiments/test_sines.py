"""The experiment on sine waves, at a size of seconds."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from weightspace.experiments import Preset, reproduce
from weightspace.experiments.sines import Sines
from weightspace.models import MODELS
from weightspace.tasks.contrastive import LinearProbe
from weightspace.zoo import Zoo

TINY = {
    **Sines.presets["cpu"].settings,
    "networks": 50,
    "steps": 10,
    "models": {"ng-gnn-linear": {"width": 8}, "flat-mlp": {"width": 16}},
    "embedding": 3,
    "epochs": 2,
    "batch_size": 16,
}


class TinySines(Sines):
    presets: ClassVar = {"cpu": Preset("Waves.", "seconds", TINY, seeds=(0,))}


def test_every_method_is_probed_and_drawn(tmp_path: Path) -> None:
    done = reproduce(TinySines(), "cpu", tmp_path)
    assert not done.failures
    zoo = Zoo.open(tmp_path / "work" / "cpu" / "zoo")
    rows = zoo.split("test")
    truth = np.stack([zoo.column(name)[rows] for name in ("a", "b")], axis=1)
    for result in done.results.methods:
        (row,) = result.rows
        assert row["probe_mse"] == pytest.approx((row["mse_a"] + row["mse_b"]) / 2)
        kept = np.load(tmp_path / "work" / "cpu" / "jobs" / f"{result.method}-0" / "test.npz")
        assert np.array_equal(kept["truth"], truth)
        assert kept["embeddings"].shape == (len(rows), 3)
        # no probe beats one that is fitted on the test networks themselves
        best = LinearProbe(kept["embeddings"], truth)(kept["embeddings"], truth)
        assert row["probe_mse"] >= best.mse
    assert (tmp_path / "figures" / "embeddings.png").is_file()


@pytest.mark.parametrize("size", ["cpu", "full"])
def test_presets_name_what_there_is(size: str) -> None:
    plan = Sines.presets[size].settings
    assert set(plan["models"]) <= set(MODELS)
    assert set(Sines.published) <= set(plan["models"])
    assert set(plan) == set(TINY)
