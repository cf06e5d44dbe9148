"""Dilation of digits: networks are edited so that strokes grow by a pixel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from weightspace.experiments.experiment import Preset
from weightspace.experiments.inr_editing import InrEditing

SMALL: dict[str, dict[str, Any]] = {
    "ng-gnn-linear": {"dropout": 0.0},
    "ng-gnn-probes": {"width": 24, "layers": 3, "dropout": 0.0},
    "ng-t-edges": {
        "width": 16,
        "pair_width": 8,
        "size": 32,
        "heads": 4,
        "layers": 2,
        "node_hidden": 32,
        "pair_hidden": 16,
        "dropout": 0.0,
    },
    "nfn-np": {"width": 64},
    "dws": {},
    "scale-gmn": {"width": 24, "layers": 2},
    "flat-mlp": {},
}
PUBLISHED_SIZE: dict[str, dict[str, Any]] = {
    "ng-gnn-linear": {"width": 64},
    "ng-gnn": {},
    "ng-gnn-probes": {},
    "ng-t-edges": {"dropout": 0.3},
    "nfn-np": {"width": 512},
    "dws": {},
    "scale-gmn": {},
    "nft": {"width": 256},
    "flat-mlp": {},
}


class Dilation(InrEditing):
    """On MNIST, with Fashion-MNIST as images of another kind."""

    name: ClassVar[str] = "dilation"
    task: ClassVar[str] = "Edit MNIST networks so that they show dilated digits."
    paper: ClassVar[str] = (
        "Kofinas et al. 2024, Kalogeropoulos et al. 2024; other networks and budgets, so compare "
        "orders"
    )
    published: ClassVar[Mapping[str, str]] = {
        "nft": "5.10",
        "nfn-np": "2.55",
        "dws": "2.29",
        "ng-gnn-probes": "2.06",
        "scale-gmn": "1.89 (bidirectional)",
        "ng-t-edges": "1.75 (NG-T, 64 probes)",
    }
    edit: ClassVar[str] = "dilate"
    images: ClassVar[str] = "mnist"
    other_images: ClassVar[str | None] = "fashion-mnist"
    presets: ClassVar[Mapping[str, Preset]] = {
        "cpu": Preset(
            data="4,000 training and 1,000 test images of MNIST, and 1,000 test images of "
            "Fashion-MNIST; SIRENs 2-32-32-1.",
            time="half an hour on two cores",
            settings={
                "hidden": [32, 32],
                "steps": 200,
                "train_images": 4000,
                "test_images": 1000,
                "validation": 0.1,
                "models": SMALL,
                "epochs": 8,
                "batch_size": 32,
                "learning_rate": 4e-3,
                "clip": 1.0,
            },
        ),
        "full": Preset(
            data="All of MNIST (55,000, 5,000 and 10,000 images) and the test images of "
            "Fashion-MNIST; SIRENs 2-32-32-1.",
            time="a day on a GPU",
            settings={
                "hidden": [32, 32],
                "steps": 1000,
                "train_images": 40000,
                "test_images": 10000,
                "validation": 5 / 60,
                "models": PUBLISHED_SIZE,
                "epochs": 100,
                "batch_size": 128,
                "learning_rate": 1e-3,
                "clip": 1.0,
            },
        ),
    }
