"""Generalisation prediction on small vision transformers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from weightspace.experiments.experiment import Preset
from weightspace.experiments.generalisation import Generalisation, Options
from weightspace.zoo.image_recipe import ImageRecipe
from weightspace.zoo.vit_zoo import VitZoo


class TransformerGeneralisation(Generalisation):
    """On small vision transformers of several shapes."""

    name: ClassVar[str] = "generalisation-transformers"
    task: ClassVar[str] = "Rank small vision transformers by their test accuracy."
    paper: ClassVar[str] = (
        "a transformer zoo on MNIST, by Transformer-NFN, which is none of these methods (.905); "
        "other networks, so compare orders"
    )
    published: ClassVar[Mapping[str, str]] = {}
    family: ClassVar[type[ImageRecipe]] = VitZoo
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
        },
    }
    presets: ClassVar[Mapping[str, Preset]] = {
        "cpu": Preset(
            data="96 vision transformers of 6 shapes on MNIST at 14 x 14, 4 checkpoints each.",
            time="twenty minutes on two cores",
            settings={
                "zoo": {
                    "images": "mnist",
                    "side": 14,
                    "count": 96,
                    "shapes": 6,
                    "updates": 500,
                    "checkpoints": 4,
                },
                "epochs": 15,
                "batch_size": 16,
                "learning_rate": 2e-3,
                "sizes": "small",
            },
        ),
        "full": Preset(
            data="10,000 vision transformers of 16 shapes on MNIST, 5 checkpoints each.",
            time="days on many cores and a GPU",
            settings={
                "zoo": {
                    "images": "mnist",
                    "count": 10_000,
                    "updates": 10_000,
                    "checkpoints": 5,
                },
                "epochs": 50,
                "batch_size": 64,
                "learning_rate": 1e-3,
                "sizes": "published",
            },
        ),
    }
