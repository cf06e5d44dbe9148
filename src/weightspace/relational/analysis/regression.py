"""How much of the differences degree explains, and how much the place in the plane."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from weightspace.relational.analysis.runs import NetworkRuns

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Fit:
    """A linear regression of graphs' mean errors.

    Args:
        terms: what stands in it, besides a constant.
        r2: share of the variance explained.
        adjusted: the same, less what as many random terms would explain.
        predicted: share of the variance predicted when every graph is left out of the fit once.
        graphs: how many.
    """

    terms: tuple[str, ...]
    r2: float
    adjusted: float
    predicted: float
    graphs: int


@dataclass(frozen=True)
class Nested:
    """Whether terms add to a regression what chance would not.

    Args:
        f: the F statistic.
        freedom: its degrees of freedom.
        p: the chance of an F as large if the terms add nothing.
    """

    f: float
    freedom: tuple[int, int]
    p: float


@dataclass(frozen=True)
class Regression:
    """Degree against the place in the plane.

    The mean degree fixes density (``(degree + 1) / nodes``), and at matched compute the width:
    what the place explains beyond it is not an effect of these.

    Args:
        degree: quadratic in the logarithm of the mean degree, and, where graphs differ in
            size, in that of the density.
        place: full quadratic in clustering and path length.
        both: with the terms of both.
        place_beyond_degree: the F-test of ``both`` against ``degree``.
        degree_beyond_place: the F-test of ``both`` against ``place``.
    """

    degree: Fit
    place: Fit
    both: Fit
    place_beyond_degree: Nested
    degree_beyond_place: Nested


Terms = dict[str, Float[Array, "graphs"]]


def regression(runs: NetworkRuns) -> Regression | None:
    """Fit mean errors by degree, by place and by both.

    Returns:
        None with fewer graphs than twice the terms.
    """
    degree, place = _degree_terms(runs), _place_terms(runs.places)
    both = degree | place
    if len(runs.graphs) < 2 * (len(both) + 1):
        return None
    return Regression(
        fit(degree, runs.means),
        fit(place, runs.means),
        fit(both, runs.means),
        nested(degree, both, runs.means),
        nested(place, both, runs.means),
    )


def fit(terms: Terms, y: Float[Array, "graphs"]) -> Fit:
    """Fit by least squares; the prediction of left-out graphs comes from the same fit (PRESS)."""
    design = _design(terms)
    basis, triangle = np.linalg.qr(design)
    rank = int((np.abs(np.diag(triangle)) > 1e-9 * np.abs(triangle).max()).sum())
    residuals = y - basis @ (basis.T @ y)
    total = float(((y - y.mean()) ** 2).sum())
    if total == 0:
        return Fit(tuple(terms), math.nan, math.nan, math.nan, len(y))
    leverage = np.minimum((basis**2).sum(1), 1 - 1e-12)
    left = float((residuals**2).sum()) / total
    missed = float(((residuals / (1 - leverage)) ** 2).sum()) / total
    freedom = max(len(y) - rank, 1)
    adjusted = 1 - left * (len(y) - 1) / freedom
    return Fit(tuple(terms), 1 - left, adjusted, 1 - missed, len(y))


def nested(few: Terms, many: Terms, y: Float[Array, "graphs"]) -> Nested:
    """The F-test of whether the terms that only ``many`` has explain more than chance."""
    from scipy.stats import f as fisher  # noqa: PLC0415 (slow to import)

    sums, ranks = [], []
    for terms in (few, many):
        solution, _, rank, _ = np.linalg.lstsq(_design(terms), y, rcond=None)
        sums.append(float(((y - _design(terms) @ solution) ** 2).sum()))
        ranks.append(int(rank))
    freedom = ranks[1] - ranks[0], len(y) - ranks[1]
    if min(freedom) < 1 or sums[1] <= 0:
        return Nested(math.nan, freedom, math.nan)
    statistic = (sums[0] - sums[1]) / freedom[0] / (sums[1] / freedom[1])
    return Nested(statistic, freedom, float(fisher.sf(statistic, *freedom)))


def place_surface(
    places: Float[Array, "graphs 2"], errors: Float[Array, "graphs"]
) -> Float[Array, "6"]:
    """Coefficients of the full quadratic in clustering and path length, the constant first."""
    solution: Array = np.linalg.lstsq(_design(_place_terms(places)), errors, rcond=None)[0]
    return solution


def surface_errors(
    coefficients: Float[Array, "6"], places: Float[Array, "graphs 2"]
) -> Float[Array, "graphs"]:
    """What a surface says of places."""
    found: Array = _design(_place_terms(places)) @ coefficients
    return found


def _degree_terms(runs: NetworkRuns) -> Terms:
    degree = np.log(runs.degrees)
    terms = {"log degree": degree, "log degree squared": degree**2}
    nodes = runs.nodes
    if np.isfinite(nodes).all() and np.ptp(nodes) > 0:
        density = np.log((runs.degrees + 1) / nodes)
        terms |= {"log density": density, "log density squared": density**2}
    return terms


def _place_terms(places: Float[Array, "graphs 2"]) -> Terms:
    c, length = places[:, 0], places[:, 1]
    return {"C": c, "L": length, "C squared": c**2, "L squared": length**2, "C L": c * length}


def _design(terms: Terms) -> Float[Array, "graphs terms"]:
    columns = [*terms.values()]
    return np.column_stack([np.ones(len(columns[0])), *columns])
