"""The editing experiments, at a size of seconds on scikit-learn's digits."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch

from weightspace.errors import FileError
from weightspace.experiments import Preset, reproduce
from weightspace.experiments.contrast import Contrast
from weightspace.experiments.dilation import Dilation
from weightspace.experiments.image_zoo import ImageZoo
from weightspace.models import MODELS
from weightspace.tasks.image_edits import IMAGE_EDITS, dilated
from weightspace.zoo import render

TINY = {
    "hidden": [8],
    "steps": 30,
    "train_images": 60,
    "test_images": 10,
    "validation": 0.2,
    "models": {"ng-gnn-linear": {"width": 8}, "flat-mlp": {"width": 16}},
    "epochs": 2,
    "batch_size": 16,
    "learning_rate": 1e-2,
    "clip": 1.0,
}


class TinyDilation(Dilation):
    images: ClassVar[str] = "digits"
    other_images: ClassVar[str | None] = "digits"
    presets: ClassVar = {
        "cpu": Preset("Digits.", "seconds", TINY, seeds=(0,)),
        "longer": Preset("Digits.", "seconds", {**TINY, "epochs": 3}, seeds=(0,)),
    }


def test_every_method_is_judged_beside_the_unedited_networks(tmp_path: Path) -> None:
    done = reproduce(TinyDilation(), "cpu", tmp_path)
    rows = {result.method: result.rows[0] for result in done.results.methods}
    assert set(rows) == {"unedited", "ng-gnn-linear", "flat-mlp"}
    assert not done.failures
    nothing = rows["unedited"]
    assert nothing["times_better"] == 1.0
    for row in rows.values():
        assert row["mse"] * row["times_better"] == pytest.approx(nothing["mse"])
        assert row["other_mse"] * row["other_times_better"] == pytest.approx(nothing["other_mse"])
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == [
        "flat-mlp-digits.png",
        "ng-gnn-linear-digits.png",
    ]


def test_the_unedited_error_is_that_of_the_renderings(tmp_path: Path) -> None:
    experiment = TinyDilation()
    preset = experiment.preset("cpu")
    experiment.prepare(preset, tmp_path)
    home = ImageZoo(tmp_path / "zoo", "digits", 60, 10)
    rows = home.rows("test")
    assert len(rows) == 10
    assert torch.equal(home.originals(rows), home.images.test)
    shown = render(home.zoo.spec, home.zoo.states(rows), 8)
    expected = (shown - dilated(home.images.test)).square().mean()
    row = experiment.run("unedited", 0, preset, tmp_path)
    assert row["mse"] == pytest.approx(100 * float(expected), rel=1e-4)
    # and the networks do show the images that they are compared with
    near = (shown - home.images.test).square().mean()
    assert near < (shown - home.images.test.roll(1, 0)).square().mean()


def test_a_job_with_other_settings_does_not_go_on_in_the_same_folder(tmp_path: Path) -> None:
    experiment = TinyDilation()
    experiment.prepare(experiment.preset("cpu"), tmp_path)
    one = experiment.run("flat-mlp", 0, experiment.preset("cpu"), tmp_path)
    again = experiment.run("flat-mlp", 0, experiment.preset("cpu"), tmp_path)
    assert one == again
    with pytest.raises(FileError, match="epochs"):
        experiment.run("flat-mlp", 0, experiment.preset("longer"), tmp_path)


@pytest.mark.parametrize("experiment", [Dilation, Contrast])
@pytest.mark.parametrize("size", ["cpu", "full"])
def test_presets_name_what_there_is(experiment: type[Dilation], size: str) -> None:
    plan = experiment.presets[size].settings
    assert set(plan["models"]) <= set(MODELS)
    assert experiment.edit in IMAGE_EDITS
    assert set(plan) == set(TINY)
    assert np.isfinite([plan["learning_rate"], plan["clip"]]).all()
