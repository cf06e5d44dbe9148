"""More contrast: networks of photographs are edited so that values move apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from weightspace.experiments.dilation import PUBLISHED_SIZE, SMALL
from weightspace.experiments.experiment import Preset
from weightspace.experiments.inr_editing import InrEditing

_CHOSEN = ("ng-gnn-linear", "ng-gnn-probes", "nfn-np", "dws", "flat-mlp")


def _plan(**changes: Any) -> dict[str, Any]:
    return {
        "hidden": [32, 32],
        "steps": 300,
        "train_images": 2000,
        "test_images": 500,
        "validation": 0.1,
        "models": {name: SMALL[name] for name in _CHOSEN},
        "epochs": 8,
        "batch_size": 32,
        "learning_rate": 4e-3,
        "clip": 1.0,
        **changes,
    }


class Contrast(InrEditing):
    """On CIFAR-10."""

    name: ClassVar[str] = "contrast"
    task: ClassVar[str] = "Edit CIFAR-10 networks so that they show images of more contrast."
    paper: ClassVar[str] = "Zhou et al. 2023, section 4.2"
    published: ClassVar[Mapping[str, str]] = {}
    edit: ClassVar[str] = "contrast"
    images: ClassVar[str] = "cifar10-jpeg"
    presets: ClassVar[Mapping[str, Preset]] = {
        "cpu": Preset(
            data="2,000 training and 500 test images of JPEG CIFAR-10; SIRENs 2-32-32-3.",
            time="twenty minutes on two cores",
            settings=_plan(),
        ),
        "full": Preset(
            data="All of JPEG CIFAR-10 (45,000, 5,000 and 10,000 images); SIRENs 2-32-32-3.",
            time="a day on a GPU",
            settings=_plan(
                steps=2000,
                train_images=50000,
                test_images=10000,
                models=PUBLISHED_SIZE,
                epochs=100,
                batch_size=128,
                learning_rate=1e-3,
            ),
        ),
    }
