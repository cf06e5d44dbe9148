"""Whether networks agree about which wiring is good, and how early one can tell."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from weightspace.relational.analysis.binning import Grid
from weightspace.relational.analysis.reliability import reliability_of
from weightspace.relational.analysis.runs import NetworkRuns, row_means
from weightspace.relational.analysis.units import UnitKind, natural_kind

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Correlation:
    """A correlation of mean errors.

    Args:
        pearson: of the means.
        low: lower end of its 95 % interval (Fisher's transformation).
        high: upper end.
        spearman: of the ranks.
        units: how many graphs or bins.
        p: of the hypothesis that Pearson's is 0.
    """

    pearson: float
    low: float
    high: float
    spearman: float
    units: int
    p: float


@dataclass(frozen=True)
class Agreement:
    """How two networks agree.

    Args:
        kind: whether graphs or bins are matched.
        with_complete: the correlation with the complete graph as one more unit, as published;
            None where one of the networks lacks it.
        graphs_only: the correlation without it.
        corrected: the latter over the root of both networks' reliabilities: what it would be
            without noise. None for bins, or where runs are too few.
    """

    kind: UnitKind
    with_complete: Correlation | None
    graphs_only: Correlation
    corrected: float | None


@dataclass(frozen=True)
class EpochAgreement:
    """What an early epoch says about the end of training.

    Args:
        epoch: the early one.
        correlation: of graphs' mean errors at it and at the end.
        regret: how much worse at the end the graph is that the epoch would choose, than the
            best at the end.
    """

    epoch: int
    correlation: Correlation
    regret: float


def agreement(first: NetworkRuns, second: NetworkRuns) -> Agreement | None:
    """Correlate mean errors of two networks over graphs that both have, or bins.

    Bins are matched where one network has many graphs a bin, or no graph is common; their
    mean error is that of all runs.

    Returns:
        None if they share fewer than four graphs or bins.
    """
    grid = Grid.covering(np.concatenate([first.places, second.places]))
    many = "bins" in {natural_kind(first, grid), natural_kind(second, grid)}
    common = [name for name in first.graphs if name in set(second.graphs)]
    kind: UnitKind = "bins" if many or len(common) < 4 else "graphs"
    if kind == "graphs":
        x, y = (_of_graphs(runs, common) for runs in (first, second))
    else:
        means = [_of_bins(runs, grid) for runs in (first, second)]
        shared = [key for key in means[0] if key in means[1]]
        x, y = (np.array([own[key] for key in shared]) for own in means)
    if len(x) < 4:
        return None
    ends = [float(np.nanmean(r.complete)) if len(r.complete) else None for r in (first, second)]
    whole = None
    if ends[0] is not None and ends[1] is not None:
        whole = correlate(np.append(x, ends[0]), np.append(y, ends[1]))
    alone = correlate(x, y)
    corrected = _corrected(alone.pearson, first, second, common) if kind == "graphs" else None
    return Agreement(kind, whole, alone, corrected)


def correlate(x: Float[Array, "units"], y: Float[Array, "units"]) -> Correlation:
    """Both correlations of two series, with an interval; NaN if one of them is constant."""
    from scipy.stats import pearsonr, spearmanr  # noqa: PLC0415 (slow to import)

    count = len(x)
    if count < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return Correlation(math.nan, math.nan, math.nan, math.nan, count, math.nan)
    found = pearsonr(x, y)
    low, high = found.confidence_interval(0.95) if count > 3 else (-1.0, 1.0)
    ranks = float(spearmanr(x, y).statistic)
    return Correlation(
        float(found.statistic), float(low), float(high), ranks, count, float(found.pvalue)
    )


def epoch_agreement(runs: NetworkRuns) -> list[EpochAgreement]:
    """Compare every kept epoch with the last; empty where epochs were not kept."""
    if runs.by_epoch is None:
        return []
    means = row_means(runs.by_epoch.errors)
    last = means[-1]
    found = []
    for epoch, own in zip(runs.by_epoch.epochs[:-1], means[:-1], strict=True):
        there = np.isfinite(own) & np.isfinite(last)
        if there.sum() < 3:
            continue
        chosen = last[there][own[there].argmin()]
        regret = float(chosen - last[there].min())
        found.append(EpochAgreement(epoch, correlate(own[there], last[there]), regret))
    return found


def _of_graphs(runs: NetworkRuns, names: list[str]) -> Float[Array, "graphs"]:
    places = {name: i for i, name in enumerate(runs.graphs)}
    means: Array = runs.means[[places[name] for name in names]]
    return means


def _of_bins(runs: NetworkRuns, grid: Grid) -> dict[tuple[int, int], float]:
    return {
        (made.column, made.row): float(np.nanmean(runs.errors[made.members]))
        for made in grid.fill(runs.places)
    }


def _corrected(
    pearson: float, first: NetworkRuns, second: NetworkRuns, common: list[str]
) -> float | None:
    found = []
    for runs in (first, second):
        places = {name: i for i, name in enumerate(runs.graphs)}
        found.append(reliability_of(runs.errors[[places[name] for name in common]]))
    if any(own is None or not own.mean > 0 for own in found):
        return None
    product = math.prod(own.mean for own in found if own is not None)
    return pearson / math.sqrt(product)
