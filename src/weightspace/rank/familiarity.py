"""Whether a network is like any of those that a model has seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weightspace.rank.folds import Integers, source_weights

Array = npt.NDArray[np.float64]
NEAREST = 3
MOST = 4000
"""Networks that new ones are compared with at the most."""
_FLOOR = 0.02
"""The least deviation of a feature: most are logarithms."""


@dataclass(frozen=True, eq=False)
class Metric:
    """Mahalanobis distances, by the shrunk covariance of Ledoit and Wolf 2004.

    Args:
        mean: of each feature.
        scale: its deviation.
        whitening: ``[features, features]``; distances are Euclidean behind it.
    """

    mean: Array
    scale: Array
    whitening: Array

    @classmethod
    def of(cls, features: Array) -> Metric:
        """Estimate the metric from networks."""
        from sklearn.covariance import ledoit_wolf  # noqa: PLC0415 (slow to import)

        mean, scale = features.mean(axis=0), np.maximum(features.std(axis=0), _FLOOR)
        covariance, _ = ledoit_wolf((features - mean) / scale)
        values, vectors = np.linalg.eigh(covariance)
        floor = 1e-2 * max(float(values.mean()), 1e-6)
        return cls(mean, scale, vectors / np.sqrt(np.maximum(values, floor)))

    def apply(self, features: Array) -> Array:
        """Bring features to the space in which distances are Euclidean."""
        moved: Array = ((features - self.mean) / self.scale) @ self.whitening
        return moved


@dataclass(frozen=True, eq=False)
class Familiarity:
    """How far networks are from their nearest ones among those that were seen.

    A network's strangeness is its mean distance to its three nearest. Networks that were held
    out tell how strange a network of the same kind may be; by conformal prediction, at most a
    share ``rate`` of networks of other sources of that kind is taken for unlike.

    Args:
        metric: of distances.
        seen: ``[networks, features]`` in the space of the metric.
        held: the strangeness of networks that were held out, in ascending order.
        limit: a strangeness above this is unlike anything seen.
        rate: the share of false alarms that the limit stands for.
    """

    metric: Metric
    seen: Array
    held: Array
    limit: float
    rate: float

    @classmethod
    def of(cls, features: Array, groups: Integers, folds: Integers, *, rate: float) -> Familiarity:
        """Learn what is familiar.

        Args:
            features: of the networks that are seen.
            groups: the source of each.
            folds: a division in which no source is in two folds.
            rate: false alarms; with few sources the least that they allow is taken.
        """
        if len(features) > MOST:
            chosen = np.linspace(0, len(features) - 1, MOST).astype(np.int64)
            features, folds = features[chosen], folds[chosen]
            groups = np.unique(groups[chosen], return_inverse=True)[1]
        strange = np.empty(len(features))
        for fold in np.unique(folds):
            out = folds == fold
            metric = Metric.of(features[~out])
            strange[out] = _strangeness(metric.apply(features[out]), metric.apply(features[~out]))
        weights = source_weights(groups)
        sources = float(weights.sum())
        rate = max(rate, 1 / (sources + 1))
        order = np.argsort(strange)
        reached = np.cumsum(weights[order]) / (sources + 1)
        place = min(int(np.searchsorted(reached, 1 - rate - 1e-9)), len(strange) - 1)
        metric = Metric.of(features)
        held = strange[order]
        return cls(metric, metric.apply(features), held, float(held[place]), rate)

    def strangeness(self, features: Array) -> Array:
        """The mean distance of each network to its nearest."""
        return _strangeness(self.metric.apply(features), self.seen)

    def unlike(self, features: Array) -> npt.NDArray[np.bool_]:
        """Whether each network is unlike anything seen."""
        return np.asarray(self.strangeness(features) > self.limit)

    def differences(self, row: Array, names: Sequence[str], *, most: int = 3) -> list[str]:
        """The features in which a network differs most from all that were seen, in words."""
        away = (row - self.metric.mean) / self.metric.scale
        order = np.argsort(-np.abs(away))[:most]
        return [f"{names[i]} {'above' if away[i] > 0 else 'below'} the usual" for i in order]


def _strangeness(networks: Array, seen: Array) -> Array:
    from sklearn.neighbors import NearestNeighbors  # noqa: PLC0415

    nearest = NearestNeighbors(n_neighbors=min(NEAREST, len(seen)), algorithm="brute").fit(seen)
    distances, _ = nearest.kneighbors(networks)
    return np.asarray(distances.mean(axis=1), dtype=np.float64)
