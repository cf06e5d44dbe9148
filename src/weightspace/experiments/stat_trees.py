"""Boosted trees on the statistics of every layer, the baseline of generalisation prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from weightspace.graph import GraphSpec, MixedGraph
from weightspace.models import Requirements
from weightspace.models.stat_nn import layer_statistics
from weightspace.tasks.batches import network_batches
from weightspace.tasks.labelled import LabelledNetworks
from weightspace.tasks.scores import explained, kendall_tau, spearman, squared_error
from weightspace.zoo import Zoo

Array = npt.NDArray[np.float64]
MOST_TREES = 300


@dataclass(frozen=True, eq=False)
class StatTrees:
    """Gradient-boosted trees on mean, variance and quantiles of each layer.

    Unterthiner et al. 2020, section 4: the statistics of :class:`weightspace.models.StatNN`, of
    networks of several depths with zeros for the layers they lack. Validation networks choose
    how many trees there are.

    Args:
        trees: the fitted regressor.
        rounds: how many of its trees are used.
        layers: of the deepest network.
    """

    trees: Any
    rounds: int
    layers: int

    @classmethod
    def fit(
        cls,
        zoo: Zoo,
        train: LabelledNetworks,
        validation: LabelledNetworks,
        *,
        specs: Sequence[GraphSpec],
        seed: int = 0,
    ) -> StatTrees:
        """Fit trees to the training networks.

        Args:
            zoo: the networks.
            train: those to fit to, with what is to be predicted.
            validation: those that choose the number of trees.
            specs: of all networks that will be read.
            seed: of the trees.
        """
        from sklearn.ensemble import HistGradientBoostingRegressor  # noqa: PLC0415 (slow)

        layers = Requirements.of(specs).hidden + 1
        trees = HistGradientBoostingRegressor(
            max_iter=MOST_TREES, learning_rate=0.05, early_stopping=False, random_state=seed
        )
        trees.fit(statistics_of(zoo, train.rows, layers=layers), np.asarray(train.values))
        stages = trees.staged_predict(statistics_of(zoo, validation.rows, layers=layers))
        taus = [kendall_tau(stage, np.asarray(validation.values)) for stage in stages]
        return cls(trees, int(np.argmax(taus)), layers)

    def judge(self, zoo: Zoo, networks: LabelledNetworks) -> dict[str, float]:
        """The scores of a regression on other networks."""
        stages = self.trees.staged_predict(statistics_of(zoo, networks.rows, layers=self.layers))
        said = next(stage for place, stage in enumerate(stages) if place == self.rounds)
        truth = np.asarray(networks.values, dtype=np.float64)
        scores = {"tau": kendall_tau, "spearman": spearman, "r2": explained, "mse": squared_error}
        return {name: score(said, truth) for name, score in scores.items()}


def statistics_of(zoo: Zoo, rows: Sequence[int], *, layers: int) -> Array:
    """The statistics of networks of a zoo, ``[networks, values]``."""
    found = []
    for batch in network_batches(zoo, rows, 256):
        mixed = MixedGraph.of(batch)
        parts = [layer_statistics(part, layers=layers).flatten(1) for part in mixed.parts]
        found += [mixed.in_order(torch.cat(parts)).double().numpy()]
    return np.concatenate(found)
