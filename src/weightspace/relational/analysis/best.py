"""The best graphs, and how they compare with the complete graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from weightspace.relational.analysis.runs import NetworkRuns, row_deviations
from weightspace.relational.analysis.sweet_spot import adjusted

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class GraphResult:
    """A graph with its error; the deviation is the population's, as in the published tables."""

    graph: str
    error: float
    deviation: float
    runs: int
    clustering: float
    path_length: float
    degree: float


@dataclass(frozen=True)
class CompleteResult:
    """The complete graph, and how many graphs do better.

    Args:
        error: mean over its runs.
        deviation: over its runs, the population's.
        runs: how many.
        better: graphs of a lower mean error.
        share: their share of all graphs.
        surely_better: graphs found better by Welch's one-tailed test with the share of false
            discoveries kept below ``alpha`` (Benjamini and Hochberg 1995); None where runs
            are too few for a test.
        alpha: that share.
    """

    error: float
    deviation: float
    runs: int
    better: int
    share: float
    surely_better: int | None
    alpha: float


def best_graphs(runs: NetworkRuns, count: int = 5) -> list[GraphResult]:
    """The graphs of the lowest mean error; of equal ones, first those that vary less.

    They are chosen by the very numbers that are shown: see the held-out selection for what
    to expect of them.
    """
    means, deviations = runs.means, row_deviations(runs.errors)
    order = np.lexsort((deviations, np.round(means, 9)))[:count]
    return [
        GraphResult(
            runs.graphs[i],
            float(means[i]),
            float(deviations[i]),
            int(np.isfinite(runs.errors[i]).sum()),
            float(runs.places[i, 0]),
            float(runs.places[i, 1]),
            float(runs.degrees[i]),
        )
        for i in order
    ]


def compare_with_complete(runs: NetworkRuns, *, alpha: float = 0.05) -> CompleteResult | None:
    """How graphs compare with the complete graph; None where that was not run."""
    complete = runs.complete[np.isfinite(runs.complete)]
    if not len(complete):
        return None
    better = runs.means < complete.mean() - 1e-9
    return CompleteResult(
        float(complete.mean()),
        float(complete.std()),
        len(complete),
        int(better.sum()),
        float(better.mean()),
        _surely_better(runs, complete, alpha),
        alpha,
    )


def _surely_better(runs: NetworkRuns, complete: Array, alpha: float) -> int | None:
    from scipy.stats import t as student  # noqa: PLC0415 (slow to import)

    counts = np.isfinite(runs.errors).sum(1)
    if len(complete) < 2 or counts.min() < 2:
        return None
    own = row_deviations(runs.errors) ** 2 / (counts - 1)
    other = complete.var() / (len(complete) - 1)
    total = np.maximum(own + other, 1e-30)
    freedom = total**2 / np.maximum(own**2 / (counts - 1) + other**2 / (len(complete) - 1), 1e-60)
    chances = student.cdf((runs.means - complete.mean()) / np.sqrt(total), freedom)
    return int((adjusted(np.asarray(chances)) < alpha).sum())
