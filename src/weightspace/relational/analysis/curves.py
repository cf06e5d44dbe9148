"""U-shapes: error over one measure while the other is held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from weightspace.relational.analysis.binning import Grid
from weightspace.relational.analysis.runs import NetworkRuns
from weightspace.relational.analysis.sweet_spot import adjusted

Array = npt.NDArray[Any]
Measure = Literal["clustering", "path_length"]

_FEWEST_GRAPHS = 5
_FEWEST_BINS = 3


@dataclass(frozen=True)
class Curve:
    """A second-degree polynomial through the graphs of one row or column of bins.

    Args:
        along: the measure that varies.
        at: the middle of the bins of the measure that is held.
        graphs: how many.
        coefficients: highest power first.
        span: least and greatest value of the varying measure.
        minimum: where the polynomial is lowest; None if it bends down.
        r2: share of the variance explained.
        p: of the hypothesis that the second-degree term is 0, adjusted for all curves of the
            network (Benjamini and Hochberg 1995).
        u_shaped: bends up, surely (adjusted p < 0.05), with its minimum among the graphs.
    """

    along: Measure
    at: float
    graphs: int
    coefficients: tuple[float, float, float]
    span: tuple[float, float]
    minimum: float | None
    r2: float
    p: float
    u_shaped: bool


def curves(runs: NetworkRuns, grid: Grid) -> list[Curve]:
    """Fit every row and column of bins with at least five graphs in three bins."""
    cells = grid.indices(runs.places)
    found: list[tuple[Measure, float, Array]] = []
    for held, along in ((1, "clustering"), (0, "path_length")):
        for index in np.unique(cells[:, held]):
            members = np.flatnonzero(cells[:, held] == index)
            bins = len(np.unique(cells[members, 1 - held]))
            if len(members) >= _FEWEST_GRAPHS and bins >= _FEWEST_BINS:
                at = grid.centre(index, 0)[0] if held == 0 else grid.centre(0, index)[1]
                name: Measure = "clustering" if along == "clustering" else "path_length"
                found.append((name, at, members))
    fits = [
        quadratic(runs.places[members, 0 if along == "clustering" else 1], runs.means[members])
        for along, _, members in found
    ]
    chances = adjusted(np.array([own.p for own in fits])) if fits else np.empty(0)
    return [
        _curve(along, at, len(members), own, float(p))
        for (along, at, members), own, p in zip(found, fits, chances, strict=True)
    ]


@dataclass(frozen=True)
class Quadratic:
    """A fitted second-degree polynomial, see :class:`Curve`; ``p`` is not adjusted."""

    coefficients: tuple[float, float, float]
    span: tuple[float, float]
    r2: float
    p: float


def quadratic(x: Float[Array, "points"], y: Float[Array, "points"]) -> Quadratic:
    """Fit a second-degree polynomial and test whether it bends."""
    from scipy.stats import t as student  # noqa: PLC0415 (slow to import)

    middle = x.mean()
    design = np.stack([(x - middle) ** 2, x - middle, np.ones(len(x))], 1)
    solution, _, rank, _ = np.linalg.lstsq(design, y, rcond=None)
    residual = float(((y - design @ solution) ** 2).sum())
    total = float(((y - y.mean()) ** 2).sum())
    p = np.nan
    if rank == 3 and len(x) > 3 and residual > 0:
        variance = residual / (len(x) - 3) * np.linalg.inv(design.T @ design)[0, 0]
        p = 2 * float(student.sf(abs(solution[0]) / np.sqrt(variance), len(x) - 3))
    a, b, c = solution.tolist()
    return Quadratic(
        (a, b - 2 * a * middle, c - b * middle + a * middle**2),
        (float(x.min()), float(x.max())),
        1 - residual / total if total else np.nan,
        p,
    )


def _curve(along: Measure, at: float, graphs: int, own: Quadratic, p: float) -> Curve:
    a, b, _ = own.coefficients
    minimum = -b / (2 * a) if a > 0 else None
    inside = minimum is not None and own.span[0] < minimum < own.span[1]
    return Curve(
        along, at, graphs, own.coefficients, own.span, minimum, own.r2, p, inside and p < 0.05
    )
