"""How much of the differences between graphs is more than chance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from weightspace.relational.analysis.runs import NetworkRuns, row_means

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Reliability:
    """The share of the variance of graphs' mean errors that the graphs account for.

    Args:
        mean: of a mean over all runs of a graph (the intraclass correlation ICC(1, k)).
        run: of a single run (ICC(1, 1)).
        runs: per graph, on (harmonic) average.
        between: standard deviation of graphs' true errors.
        within: standard deviation of the runs of one graph.
        runs_for_90: runs per graph for a reliability of 0.9; None if graphs do not differ.
    """

    mean: float
    run: float
    runs: float
    between: float
    within: float
    runs_for_90: int | None


def reliability(runs: NetworkRuns) -> Reliability | None:
    """Compare the variance between graphs with that between runs of one graph.

    One-way analysis of variance (Shrout and Fleiss 1979): ``(MSB - MSW) / MSB`` for means,
    where MSB is the mean square between graphs and MSW that within them.

    Returns:
        None if no graph was run twice, or there is only one graph.
    """
    return reliability_of(runs.errors)


def reliability_of(errors: Array) -> Reliability | None:
    """See :func:`reliability`.

    Args:
        errors: shape ``[graphs, seeds]``, NaN where a run is missing.
    """
    there = np.isfinite(errors)
    errors, there = errors[there.any(1)], there[there.any(1)]
    counts = there.sum(1)
    graphs, total = len(errors), int(counts.sum())
    if graphs < 2 or total == graphs:
        return None
    means = row_means(errors)
    grand = float(np.nansum(errors)) / total
    between = float((counts * (means - grand) ** 2).sum()) / (graphs - 1)
    within = float(np.nansum((errors - means[:, None]) ** 2)) / (total - graphs)
    size = (total - float((counts**2).sum()) / total) / (graphs - 1)
    true = (between - within) / size
    if between <= 0:
        return Reliability(math.nan, math.nan, size, 0.0, math.sqrt(within), None)
    needed = math.ceil(9 * within / true - 1e-9) if true > 0 else None
    return Reliability(
        (between - within) / between,
        (between - within) / (between + (size - 1) * within),
        size,
        math.sqrt(max(true, 0.0)),
        math.sqrt(within),
        needed if needed is None else max(needed, 1),
    )
