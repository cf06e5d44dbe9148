"""Generalisation prediction on CNNs of architectures that training has not seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from weightspace.experiments.experiment import Preset
from weightspace.experiments.generalisation import Generalisation, Options
from weightspace.zoo.cnn_wild_park import CnnWildPark
from weightspace.zoo.cnn_zoo import CnnZoo
from weightspace.zoo.image_recipe import ImageRecipe


class WildParkGeneralisation(Generalisation):
    """On CNNs of many architectures, and on the small CNN zoo, of which training has none."""

    name: ClassVar[str] = "generalisation-wild-park"
    task: ClassVar[str] = (
        "Rank CNNs of architectures that training has not seen by their test accuracy; `other` is "
        "the same model on small CNNs with ReLU and tanh, another family, never trained on."
    )
    paper: ClassVar[str] = (
        "CNN Wild Park (Kofinas et al. 2024; probe-only: Kahana et al. 2025); other networks, so "
        "compare orders"
    )
    published: ClassVar[Mapping[str, str]] = {
        "stat-nn": ".719",
        "ng-gnn": ".804",
        "ng-t": ".817",
        "probe-only": ".933",
    }
    family: ClassVar[type[ImageRecipe]] = CnnWildPark
    other: ClassVar[type[ImageRecipe] | None] = CnnZoo
    sizes: ClassVar[Mapping[str, Mapping[str, Options]]] = {
        "small": {
            "stat-nn": {},
            "probe-only": {"probes": 16},
            "ng-gnn": {"width": 32},
            "ng-gnn-linear": {"width": 64},
            "nfn-np": {"width": 32},
        },
        "published": {
            "stat-nn": {},
            "probe-only": {},
            "ng-gnn": {},
            "ng-gnn-linear": {},
            "ng-t": {},
            "nfn-np": {"width": 512, "head": 1000},
            "scale-gmn": {},
        },
    }
    presets: ClassVar[Mapping[str, Preset]] = {
        "cpu": Preset(
            data="CNNs of 128 architectures on MNIST at 16 x 16, 5 checkpoints each; "
            "32 small CNNs.",
            time="half an hour on two cores",
            settings={
                "zoo": {
                    "images": "mnist",
                    "side": 16,
                    "count": 128,
                    "siblings": 1,
                    "updates": 300,
                    "checkpoints": 5,
                },
                "other": {
                    "images": "mnist",
                    "side": 16,
                    "count": 32,
                    "siblings": 16,
                    "updates": 600,
                    "checkpoints": 4,
                    "seed": 1,
                },
                "epochs": 20,
                "batch_size": 16,
                "learning_rate": 2e-3,
                "sizes": "small",
            },
        ),
        "full": Preset(
            data="CNNs of 1,000 architectures on grey CIFAR-10 (JPEG), 60 checkpoints each.",
            time="days on many cores and a GPU",
            settings={
                "zoo": {
                    "images": "cifar10-jpeg",
                    "count": 2000,
                    "siblings": 2,
                    "updates": 40_000,
                    "checkpoints": 60,
                },
                "other": {
                    "images": "cifar10-jpeg",
                    "count": 1000,
                    "updates": 20_000,
                    "checkpoints": 4,
                    "seed": 1,
                },
                "epochs": 10,
                "batch_size": 64,
                "learning_rate": 1e-3,
                "sizes": "published",
            },
        ),
    }
