"""Generalisation prediction: how well networks will do, from their weights."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from weightspace.errors import WeightspaceError
from weightspace.experiments.experiment import Experiment, Preset, Row
from weightspace.experiments.stat_trees import StatTrees
from weightspace.models import ModuleRunner
from weightspace.tasks.labelled import LabelledNetworks
from weightspace.tasks.regression import ShareRegressionTask
from weightspace.train import Budget
from weightspace.train.predictor import Outcome, Settings, judge, train_predictor
from weightspace.zoo import Zoo
from weightspace.zoo.cnn_wild_park import CnnWildPark
from weightspace.zoo.cnn_zoo import CnnZoo
from weightspace.zoo.image_recipe import ImageRecipe
from weightspace.zoo.rebuilding import build_network
from weightspace.zoo.recipe import make_zoo
from weightspace.zoo.vit_zoo import VitZoo

_LOG = logging.getLogger(__name__)
TARGET = "test_accuracy"
TREES = "stat-trees"
"""The method that is no metanetwork: boosted trees on the statistics of every layer."""

Options = Mapping[str, int | float | bool | str]


class Generalisation(Experiment):
    """Models rank networks by the test accuracy that they will be found to have.

    Unterthiner et al. 2020; the protocol of Zhou et al. 2023 and Kofinas et al. 2024: binary
    cross-entropy of a sigmoid, Kendall's tau. The networks are checkpoints along trainings of
    random hyperparameters; all of one training are in one split, and those that diverged are
    left out. Validation networks choose the epoch. All methods have the same networks, epochs
    and optimiser.
    """

    metric: ClassVar[str] = "tau"
    family: ClassVar[type[ImageRecipe]]
    """What makes the networks, with the preset's ``zoo`` as options."""
    other: ClassVar[type[ImageRecipe] | None] = None
    """What makes networks of another family, on which models are tested, too."""
    sizes: ClassVar[Mapping[str, Mapping[str, Options]]]
    """The options of each method, by the preset's ``sizes``."""

    def methods(self, preset: Preset) -> Sequence[str]:
        """Statistics of the layers first, then metanetworks."""
        return (TREES, *self.sizes[preset.settings["sizes"]])

    def recipe(self, preset: Preset) -> ImageRecipe:
        """What makes the zoo."""
        return self.family(**_plain(preset.settings["zoo"]))

    def prepare(self, preset: Preset, folder: Path) -> None:
        """Train the networks."""
        make_zoo(self.recipe(preset), folder / "zoo")
        if self.other is not None:
            make_zoo(self.other(**_plain(preset.settings["other"])), folder / "other")

    def run(self, method: str, seed: int, preset: Preset, folder: Path) -> Row:
        """Train one model with one seed, and rank the test networks."""
        zoo = Zoo.open(folder / "zoo")
        other = None if self.other is None else Zoo.open(folder / "other")
        if method == TREES:
            return _run_trees(zoo, other, seed)
        runner = None
        if method == "probe-only":
            zoos = [zoo] if other is None else [zoo, other]
            runner = module_runner(zoos, self.recipe(preset).pictures.shape)
        outcome = train_predictor(
            zoo,
            folder / "jobs" / f"{method}-{seed}",
            self._settings(method, seed, preset),
            runner=runner,
        )
        return {
            **outcome.tested.scores,
            **({} if other is None else _judged(outcome, other)),
            "parameters": outcome.model.parameter_count,
            "best_epoch": outcome.fitted.best_epoch,
        }

    def _settings(self, method: str, seed: int, preset: Preset) -> Settings:
        plan = preset.settings
        return Settings(
            model=method,
            options=self.sizes[plan["sizes"]][method],
            task=ShareRegressionTask,
            target=TARGET,
            seed=seed,
            learning_rate=plan["learning_rate"],
            budget=Budget(
                epochs=plan["epochs"], batch_size=plan["batch_size"], patience=plan["epochs"]
            ),
            progress=False,
        )


def module_runner(zoos: Sequence[Zoo], shape: Sequence[int]) -> ModuleRunner:
    """What runs the networks of zoos whose rows say how to build them.

    Args:
        zoos: made by recipes of image classifiers.
        shape: of one image, channels first.
    """
    modules = {}
    for zoo in zoos:
        indices = zoo.spec_indices(range(len(zoo)))
        for index in np.unique(indices).tolist():
            row = int(np.flatnonzero(indices == index)[0])
            modules[zoo.specs[index]] = build_network(zoo.metadata.slice(row, 1).to_pylist()[0])
    return ModuleRunner(modules, tuple(shape))


def _run_trees(zoo: Zoo, other: Zoo | None, seed: int) -> Row:
    parts = {k: LabelledNetworks.read(zoo, zoo.split(k), TARGET, name=k) for k in zoo.splits}
    specs = (*zoo.specs, *(() if other is None else other.specs))
    trees = StatTrees.fit(zoo, parts["train"], parts["val"], specs=specs, seed=seed)
    row: Row = dict(trees.judge(zoo, parts["test"]))
    if other is not None:
        row |= _as_other(trees.judge(other, _all(other)))
    return row


def _judged(outcome: Outcome, other: Zoo) -> Row:
    """The scores on networks of another family, or why there are none."""
    try:
        return _as_other(judge(outcome.task, other, _all(other)).scores)
    except WeightspaceError as error:
        _LOG.warning("networks of the other family cannot be read: %s", error)
        return {"other": f"cannot be read: {error}"}


def _all(zoo: Zoo) -> LabelledNetworks:
    return LabelledNetworks.read(zoo, range(len(zoo)), TARGET, name="other family's")


def _as_other(scores: Mapping[str, float]) -> Row:
    return {f"other_{name}": scores[name] for name in ("tau", "r2")}


def _plain(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as recipes take them: tuples where JSON has lists."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}


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
            "scale-gmn": {"width": 16, "layers": 3},
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
