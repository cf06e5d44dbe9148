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
from weightspace.zoo.image_recipe import ImageRecipe
from weightspace.zoo.rebuilding import build_network
from weightspace.zoo.recipe import make_zoo

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
