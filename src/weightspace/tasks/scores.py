"""How well predicted numbers agree with measured ones."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor
from torchmetrics import Metric, MetricCollection
from torchmetrics.functional import mean_squared_error, r2_score
from torchmetrics.utilities import dim_zero_cat

Numbers = npt.NDArray[np.float64]
Score = Callable[[Numbers, Numbers], float]


class EpochScore(Metric):
    """A score of all predictions of an epoch together, such as a rank correlation.

    Args:
        score: of predicted and measured numbers.

    >>> score = EpochScore(kendall_tau)
    >>> score.update(torch.tensor([0.1, 0.2]), torch.tensor([1.0, 2.0]))
    >>> score.update(torch.tensor([0.3]), torch.tensor([0.0]))
    >>> round(float(score.compute()), 3)
    -0.333
    """

    full_state_update = False
    predicted: list[Tensor]
    measured: list[Tensor]

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.score = score
        self.add_state("predicted", default=[], dist_reduce_fx="cat")
        self.add_state("measured", default=[], dist_reduce_fx="cat")

    def update(
        self, predicted: Float[Tensor, " networks"], measured: Float[Tensor, " networks"]
    ) -> None:
        """Take in the predictions of a batch."""
        self.predicted.append(predicted.detach().double())
        self.measured.append(measured.detach().double())

    def compute(self) -> Tensor:
        """The score of what was taken in."""
        predicted, measured = (
            dim_zero_cat(values).cpu().numpy() for values in (self.predicted, self.measured)
        )
        return torch.tensor(self.score(predicted, measured), dtype=torch.float64)


def kendall_tau(predicted: Numbers, measured: Numbers) -> float:
    """Kendall's tau-b: how well the order agrees, ties counted; 0 if either has no order.

    >>> kendall_tau(np.array([1.0, 2.0, 3.0]), np.array([10.0, 30.0, 20.0]))
    0.33333333333333337
    """
    from scipy.stats import kendalltau  # noqa: PLC0415 (slow to import)

    if not _ordered(predicted, measured):
        return 0.0
    return float(kendalltau(predicted, measured).statistic)


def spearman(predicted: Numbers, measured: Numbers) -> float:
    """Spearman's correlation of ranks; 0 if either has no order.

    >>> spearman(np.array([1.0, 2.0, 3.0]), np.array([10.0, 30.0, 20.0]))
    0.5
    """
    from scipy.stats import spearmanr  # noqa: PLC0415

    if not _ordered(predicted, measured):
        return 0.0
    return float(spearmanr(predicted, measured).statistic)


def explained(predicted: Numbers, measured: Numbers) -> float:
    """R2, the share of the variance that is explained; not a number where there is none.

    >>> explained(np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    1.0
    """
    if len(measured) < 2 or np.ptp(measured) == 0:
        return math.nan
    return float(r2_score(torch.from_numpy(predicted), torch.from_numpy(measured)))


def squared_error(predicted: Numbers, measured: Numbers) -> float:
    """The mean squared error, in the square of the column's unit."""
    return float(mean_squared_error(torch.from_numpy(predicted), torch.from_numpy(measured)))


def regression_scores() -> MetricCollection:
    """The scores of a regression: ``tau``, ``spearman``, ``r2`` and ``mse``."""
    scores = {"tau": kendall_tau, "spearman": spearman, "r2": explained, "mse": squared_error}
    return MetricCollection(
        {name: EpochScore(score) for name, score in scores.items()}, compute_groups=False
    )


def _ordered(*lists: Numbers) -> bool:
    """Whether lists of numbers have an order: all finite, and not all the same."""
    return all(
        len(numbers) > 1 and bool(np.isfinite(numbers).all()) and np.ptp(numbers) > 0
        for numbers in lists
    )
