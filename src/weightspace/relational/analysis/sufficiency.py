"""How few graphs show what many do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from weightspace.relational.analysis.agreement import Correlation, correlate
from weightspace.relational.analysis.binning import Grid
from weightspace.relational.analysis.regression import place_surface, surface_errors
from weightspace.relational.analysis.runs import NetworkRuns

Array = npt.NDArray[Any]

SIZES = (10, 15, 20, 30, 40, 52, 75, 100, 200, 400, 1000)
_DRAWS = 100
_LEFT = 6  # graphs that must be left to predict


@dataclass(frozen=True)
class FewGraphs:
    """What a study of so many random graphs would have found.

    Args:
        graphs: how many.
        correlation: of errors predicted for all other graphs with those measured; the median
            over many choices of graphs.
        low: the 5th percentile of that.
        high: the 95th percentile.
        regret: how much worse than the best of all graphs, by measured mean error, the graph
            is that the prediction calls best; the median.
    """

    graphs: int
    correlation: float
    low: float
    high: float
    regret: float


@dataclass(frozen=True)
class OnePerBin:
    """What one graph a bin says of all graphs of the bin.

    Args:
        correlation: of the single graphs' means with those of bins; the median of many random
            choices, with each graph left out of its bin's mean.
        low: the 5th percentile.
        high: the 95th percentile.
        bins: with at least two graphs.
    """

    correlation: float
    low: float
    high: float
    bins: int


def few_graphs(
    runs: NetworkRuns, *, sizes: Sequence[int] = SIZES, seed: int = 0
) -> list[FewGraphs]:
    """Fit the quadratic surface to some graphs, and predict all others.

    Args:
        runs: what was measured.
        sizes: numbers of graphs; those with too few others are left out.
        seed: of the choices of graphs.
    """
    random = np.random.default_rng(seed)
    means = runs.means
    found = []
    for size in sizes:
        if size + _LEFT > len(means):
            break
        correlations, regrets = [], []
        for _ in range(_DRAWS):
            order = random.permutation(len(means))
            chosen, others = order[:size], order[size:]
            surface = place_surface(runs.places[chosen], means[chosen])
            predicted = surface_errors(surface, runs.places[others])
            correlations.append(_pearson(predicted, means[others]))
            regrets.append(means[others][predicted.argmin()] - means.min())
        low, middle, high = np.percentile(correlations, [5, 50, 95]).tolist()
        found.append(FewGraphs(size, middle, low, high, float(np.median(regrets))))
    return found


def one_per_bin(runs: NetworkRuns, grid: Grid, *, seed: int = 0) -> OnePerBin | None:
    """Let a random graph speak for its bin; None if fewer than four bins have two graphs."""
    random = np.random.default_rng(seed)
    means = runs.means
    bins = grid.fill(runs.places, at_least=2)
    if len(bins) < 4:
        return None
    totals = np.array([means[made.members].sum() for made in bins])
    counts = np.array([len(made.members) for made in bins])
    correlations = []
    for _ in range(_DRAWS):
        single = means[[random.choice(made.members) for made in bins]]
        correlations.append(_pearson(single, (totals - single) / (counts - 1)))
    low, middle, high = np.percentile(correlations, [5, 50, 95]).tolist()
    return OnePerBin(middle, low, high, len(bins))


def subset_against_bins(runs: NetworkRuns, names: Sequence[str], grid: Grid) -> Correlation | None:
    """Correlate some graphs' means with those of the bins they lie in, as published.

    Args:
        runs: of all graphs.
        names: the graphs that speak for their bins.
        grid: the bins.

    Returns:
        None if fewer than four of the graphs are there.
    """
    wanted = set(names)
    chosen = [i for i, name in enumerate(runs.graphs) if name in wanted]
    if len(chosen) < 4:
        return None
    means = runs.means
    of_bin = np.empty(len(means))
    for made in grid.fill(runs.places):
        of_bin[made.members] = means[made.members].mean()
    return correlate(means[chosen], of_bin[chosen])


def _pearson(x: Array, y: Array) -> float:
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    return float(np.corrcoef(x, y)[0, 1])
