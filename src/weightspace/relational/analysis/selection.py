"""Choosing the best graph on some seeds and reporting it on others."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from weightspace.relational.analysis.runs import NetworkRuns, row_means

Array = npt.NDArray[Any]

_MOST_SPLITS = 1000


@dataclass(frozen=True)
class HeldOutBest:
    """What the best graph is worth on seeds that had no part in choosing it.

    Args:
        chosen_on: seeds that choose.
        held_out: seeds that report.
        splits: ways to share the seeds, over which all is averaged.
        seen: the error of the chosen graph on the seeds that chose it.
        error: its error on the others: what to expect of it.
        curse: how much worse that is (the winner's curse).
        average: the mean error of all graphs.
        gain: how much better than that the choice really is.
        complete: the error of the complete graph, where it was run.
        graphs: the graphs chosen, with the share of splits that chose them, most often first.
    """

    chosen_on: int
    held_out: int
    splits: int
    seen: float
    error: float
    curse: float
    average: float
    gain: float
    complete: float | None
    graphs: tuple[tuple[str, float], ...]


def held_out_best(runs: NetworkRuns, *, choose_on: int | None = None) -> HeldOutBest | None:
    """Choose the graph of the lowest mean error on some seeds, and measure it on the others.

    Averaged over all ways to share the seeds.

    Args:
        runs: what was measured.
        choose_on: seeds that choose; 60 % of them unless given.

    Returns:
        None with fewer than two seeds.
    """
    seeds = runs.seeds
    if seeds < 2:
        return None
    size = min(max(choose_on or round(0.6 * seeds), 1), seeds - 1)
    seen, error, winners = [], [], []
    for chosen in islice(combinations(range(seeds), size), _MOST_SPLITS):
        others = [i for i in range(seeds) if i not in chosen]
        means, later = row_means(runs.errors[:, chosen]), row_means(runs.errors[:, others])
        usable = np.isfinite(means) & np.isfinite(later)
        if not usable.any():
            continue
        best = int(np.argmin(np.where(usable, means, np.inf)))
        seen.append(means[best])
        error.append(later[best])
        winners.append(best)
    if not winners:
        return None
    found, counts = np.unique(winners, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    average = float(runs.means.mean())
    return HeldOutBest(
        size,
        seeds - size,
        len(winners),
        float(np.mean(seen)),
        float(np.mean(error)),
        float(np.mean(error) - np.mean(seen)),
        average,
        average - float(np.mean(error)),
        float(np.nanmean(runs.complete)) if len(runs.complete) else None,
        tuple((runs.graphs[found[i]], float(counts[i] / len(winners))) for i in order[:5]),
    )
