"""Generalisation prediction on small CNNs of one architecture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from weightspace.experiments.experiment import Preset
from weightspace.experiments.generalisation import Generalisation, Options
from weightspace.zoo.cnn_zoo import CnnZoo
from weightspace.zoo.image_recipe import ImageRecipe


class SmallCnnGeneralisation(Generalisation):
    """On small CNNs of one architecture, so that models of one architecture can read them."""

    name: ClassVar[str] = "generalisation-cnn-zoo"
    task: ClassVar[str] = "Rank small CNNs by their test accuracy from their weights."
    paper: ClassVar[str] = (
        "Small CNN Zoo, grey CIFAR-10 (Unterthiner et al. 2020), by Zhou et al. 2023, Kofinas et "
        "al. 2024, Kalogeropoulos et al. 2024; other networks, so compare orders"
    )
    published: ClassVar[Mapping[str, str]] = {
        "stat-nn": ".915",
        "nfn-hnp": ".934",
        "ng-gnn": ".930",
        "ng-t": ".935",
        "scale-gmn": ".941",
    }
    family: ClassVar[type[ImageRecipe]] = CnnZoo
    sizes: ClassVar[Mapping[str, Mapping[str, Options]]] = {
        "small": {
            "stat-nn": {},
            "probe-only": {"probes": 32},
            "ng-gnn": {},
            "ng-gnn-linear": {"width": 64},
            "dws": {},
            "nfn-np": {"width": 64},
            "nfn-hnp": {"width": 64},
            "scale-gmn": {"width": 32, "layers": 3},
            "flat-mlp": {},
        },
        "published": {
            "stat-nn": {},
            "probe-only": {},
            "ng-gnn": {},
            "ng-gnn-linear": {},
            "ng-t": {},
            "dws": {},
            "nfn-np": {"width": 512, "head": 1000},
            "nfn-hnp": {"width": 512, "head": 1000},
            "scale-gmn": {},
            "flat-mlp": {},
        },
    }
    presets: ClassVar[Mapping[str, Preset]] = {
        "cpu": Preset(
            data="256 CNNs of 4,970 parameters with ReLU on MNIST, 4 checkpoints each.",
            time="twenty minutes on two cores",
            settings={
                "zoo": {
                    "images": "mnist",
                    "activations": ["relu"],
                    "count": 256,
                    "updates": 600,
                    "checkpoints": 4,
                },
                "epochs": 20,
                "batch_size": 16,
                "learning_rate": 2e-3,
                "sizes": "small",
            },
        ),
        "full": Preset(
            data="30,000 CNNs of 4,970 parameters with ReLU on grey CIFAR-10 (JPEG).",
            time="days on many cores and a GPU",
            settings={
                "zoo": {
                    "images": "cifar10-jpeg",
                    "activations": ["relu"],
                    "count": 30_000,
                    "updates": 20_000,
                    "checkpoints": 1,
                },
                "epochs": 300,
                "batch_size": 192,
                "learning_rate": 1e-3,
                "sizes": "published",
            },
        ),
    }
