"""Graphs of a sweep against networks that share all but their wiring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from weightspace.relational.analysis.runs import ControlRuns, NetworkRuns, row_means

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class ControlResult:
    """How a kind of control compares.

    Args:
        kind: its name.
        networks: how many, each a mean over its runs.
        error: their mean error.
        deviation: between them.
        paired: whether each is compared with the graph that it is a control of, or all with
            all graphs of the sweep.
        difference: how much worse than the sweep's graphs they are.
        p: of the hypothesis that they do not differ (paired t-test, or Welch's; two-tailed);
            None where there are too few.
    """

    kind: str
    networks: int
    error: float
    deviation: float
    paired: bool
    difference: float
    p: float | None


def compare_controls(runs: NetworkRuns) -> list[ControlResult]:
    """Compare every kind of control with the graphs of the sweep."""
    return [
        _compare(runs, kind, control)
        for kind, control in runs.controls.items()
        if np.isfinite(control.errors).any()
    ]


def _compare(runs: NetworkRuns, kind: str, control: ControlRuns) -> ControlResult:
    means = row_means(control.errors)
    there = np.isfinite(means)
    own = dict(zip(runs.graphs, runs.means.tolist(), strict=True))
    originals = [own.get(name, np.nan) for name in control.graphs]
    matched = there & np.isfinite(originals)
    paired = bool(matched.any())
    if paired:
        differences = means[matched] - np.array(originals)[matched]
        difference, p = float(differences.mean()), _one_sample(differences)
    else:
        difference = float(means[there].mean() - runs.means.mean())
        p = _two_samples(means[there], runs.means)
    return ControlResult(
        kind,
        int(there.sum()),
        float(means[there].mean()),
        float(means[there].std()),
        paired,
        difference,
        p,
    )


def _one_sample(values: Array) -> float | None:
    from scipy.stats import ttest_1samp  # noqa: PLC0415 (slow to import)

    if len(values) < 2 or np.ptp(values) == 0:
        return None
    return float(ttest_1samp(values, 0).pvalue)


def _two_samples(first: Array, second: Array) -> float | None:
    from scipy.stats import ttest_ind  # noqa: PLC0415 (slow to import)

    if min(len(first), len(second)) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return float(ttest_ind(first, second, equal_var=False).pvalue)
