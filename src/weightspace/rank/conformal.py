"""Cross-conformal intervals: how far predictions of new networks may be off."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weightspace.errors import require_between
from weightspace.rank.folds import Integers

Array = npt.NDArray[np.float64]
COVERAGES = (0.01, 0.999)
"""The least and the greatest share that intervals may cover."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """What the held-out networks of a cross-validation say of a model's errors.

    The method CV+ of Barber et al. 2021, "Predictive inference with the jackknife+": a new
    network's interval is made of the predictions of the model that has not seen network ``i``,
    with and without ``i``'s own error, for all ``i``. Networks of one source are not
    exchangeable by themselves; their errors share the weight of one (Dunn et al. 2023, "pooling
    CDFs"), and one further source, the new one, may have any error. So few sources give
    infinite intervals instead of false ones.

    Args:
        folds: ``[networks]``, the fold that each was held out in.
        errors: ``[networks]``, the absolute error of the prediction then.
        weights: ``[networks]``, summing to one for each source.
    """

    folds: Integers
    errors: Array
    weights: Array

    def interval(self, predictions: Array, *, coverage: float) -> tuple[Array, Array]:
        """The interval of each new network.

        Args:
            predictions: ``[networks, folds]``, of the model of each fold.
            coverage: the share of new networks whose value shall lie inside.

        Returns:
            The lower and upper ends, infinite where there are too few sources.

        >>> calibration = Calibration(np.arange(9) % 3, np.arange(9.0), np.ones(9))
        >>> low, high = calibration.interval(np.zeros((1, 3)), coverage=0.8)
        >>> float(low[0]), float(high[0])
        (-7.0, 7.0)
        """
        require_between("coverage", coverage, *COVERAGES)
        own = predictions[:, self.folds]
        high = _upper_quantile(own + self.errors, self.weights, coverage)
        low = -_upper_quantile(self.errors - own, self.weights, coverage)
        return low, high


def _upper_quantile(values: Array, weights: Array, share: float) -> Array:
    """The least value of each row with this share of the weight, of one more at infinity, below."""
    order = np.argsort(values, axis=1, kind="stable")
    reached = np.cumsum(weights[order], axis=1) / (weights.sum() + 1)
    enough = reached >= share - 1e-12
    place = enough.argmax(axis=1)
    found = np.take_along_axis(values, np.take_along_axis(order, place[:, None], 1), 1)[:, 0]
    return np.where(enough.any(axis=1), found, np.inf)
