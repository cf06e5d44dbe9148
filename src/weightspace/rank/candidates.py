"""The models that a ranking is chosen among."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from weightspace.errors import DataError, ModelError
from weightspace.rank.examples import Examples
from weightspace.rank.fitted import LIMIT, Fitted, Linear, Trees
from weightspace.rank.folds import Integers, grouped_folds

Array = npt.NDArray[np.float64]


class Candidate(ABC):
    """A kind of model that may rank networks."""

    name: str
    cheap: ClassVar[bool] = True
    """Whether a fit takes seconds, so that cross-validation can be repeated."""

    @abstractmethod
    def fit(self, examples: Examples, train: Integers, held: Integers, *, seed: int) -> Fitted:
        """Fit to some of the networks.

        Args:
            examples: networks with their values.
            train: the places of those to fit to.
            held: of those that are held out, which are not used.
            seed: of every random choice.
        """


class Ridge(Candidate):
    """A linear function of features; its shrinkage is chosen by leave-one-out."""

    name = "ridge"

    def fit(self, examples: Examples, train: Integers, held: Integers, *, seed: int) -> Fitted:
        """See :class:`Candidate`."""
        from sklearn.linear_model import RidgeCV  # noqa: PLC0415 (slow to import)

        features, values = examples.features[train], examples.values[train]
        mean, scale = features.mean(axis=0), features.std(axis=0)
        scale = np.where(scale > 1e-9, scale, np.inf)  # what is constant tells nothing
        standard = np.clip((features - mean) / scale, -LIMIT, LIMIT)
        model = RidgeCV(alphas=np.logspace(-1, 5, 13)).fit(standard, values)
        scale = np.where(np.isfinite(scale), scale, 1e30)
        return Linear(mean, scale, np.asarray(model.coef_), np.array([float(model.intercept_)]))


class BoostedTrees(Candidate):
    """Stochastic gradient boosting (Friedman 2002) on features.

    The regressor of Unterthiner et al. 2020, with shallow trees and subsampling, because zoos
    of people are small.
    """

    name = "trees"

    def fit(self, examples: Examples, train: Integers, held: Integers, *, seed: int) -> Fitted:
        """See :class:`Candidate`."""
        from sklearn.ensemble import GradientBoostingRegressor  # noqa: PLC0415

        model = GradientBoostingRegressor(
            n_estimators=150,
            learning_rate=0.06,
            max_depth=3,
            subsample=0.7,
            max_features="sqrt",
            min_samples_leaf=max(1, min(5, len(train) // 20)),
            random_state=seed,
        ).fit(examples.features[train].astype(np.float32), examples.values[train])
        return _plain_trees(model, float(examples.values[train].mean()))


@dataclass(frozen=True)
class Metanetwork(Candidate):
    """A metanetwork, trained on the weights.

    Args:
        name: its name among :data:`weightspace.models.MODELS`.
        target: the column of what is predicted.
        folder: for checkpoints, so that an interrupted training goes on.
        epochs: at the most.
    """

    name: str
    target: str
    folder: Path
    epochs: int = 30
    cheap: ClassVar[bool] = False

    def fit(self, examples: Examples, train: Integers, held: Integers, *, seed: int) -> Fitted:
        """See :class:`Candidate`."""
        from weightspace.rank.neural import fit_neural  # noqa: PLC0415 (training is heavy)

        if examples.zoo is None or examples.rows is None:
            raise DataError(self.name, expected="networks of a zoo", found="features alone")
        inner = grouped_folds(
            np.unique(examples.groups[train], return_inverse=True)[1], folds=5, seed=seed
        )
        splits = {
            "train": examples.rows[train[inner > 0]].tolist(),
            "val": examples.rows[train[inner == 0]].tolist(),
            "test": examples.rows[held].tolist(),
        }
        return fit_neural(self, examples, splits, seed=seed)


CHEAP: dict[str, type[Candidate]] = {kind.name: kind for kind in (Ridge, BoostedTrees)}
STAT_NN_FROM = 150
GNN_FROM = 400
MOST_VALUES = 200_000


def candidates_for(examples: Examples, name: str, folder: Path | None) -> list[Candidate]:
    """The candidates by name; for ``auto``, those that the size and kind of a zoo suggest.

    With fewer than 150 sources those on features alone; from there on ``stat-nn``, and
    ``ng-gnn-linear`` from 400 on where networks are small enough to train on without a GPU.

    Raises:
        ModelError: there is no such candidate.
    """
    if name in CHEAP:
        return [CHEAP[name]()]
    if name != "auto":
        raise ModelError("model", expected=f"auto, {', '.join(CHEAP)}", found=repr(name))
    found = [kind() for kind in CHEAP.values()]
    if folder is None or examples.zoo is None:
        return found
    if examples.sources >= STAT_NN_FROM:
        found.append(Metanetwork("stat-nn", examples.target, folder))
    largest = max(spec.parameter_count for spec in examples.zoo.specs)
    if examples.sources >= GNN_FROM and largest <= MOST_VALUES:
        found.append(Metanetwork("ng-gnn-linear", examples.target, folder))
    return found


def _plain_trees(model: object, mean: float) -> Trees:
    """The arrays of scikit-learn's trees, one after the other."""
    trees = [stage[0].tree_ for stage in model.estimators_]  # type: ignore[attr-defined]
    roots = np.cumsum([0, *(tree.node_count for tree in trees)])[:-1]
    children, value = [], []
    for root, tree in zip(roots, trees, strict=True):
        pair = np.stack([tree.children_left, tree.children_right], axis=1)
        leaf = pair[:, 0] < 0
        pair[leaf] = np.flatnonzero(leaf)[:, None]
        children.append(pair + root)
        value.append(tree.value[:, 0, 0])
    return Trees(
        roots=roots.astype(np.int64),
        children=np.concatenate(children).astype(np.int64),
        feature=np.maximum(np.concatenate([tree.feature for tree in trees]), 0).astype(np.int64),
        threshold=np.concatenate([tree.threshold for tree in trees]),
        value=np.concatenate(value) * model.learning_rate,  # type: ignore[attr-defined]
        offset=np.array([mean]),
        depth=np.array([max(tree.max_depth for tree in trees)], dtype=np.int64),
    )
