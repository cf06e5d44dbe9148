"""The part of the plane that is not significantly worse than its best."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from weightspace.relational.analysis.units import Unit

Array = npt.NDArray[Any]
Range = tuple[float, float]


@dataclass(frozen=True)
class Box:
    """A part of the plane.

    Args:
        clustering: from, to.
        path_length: from, to.
    """

    clustering: Range
    path_length: Range


@dataclass(frozen=True)
class SweetSpot:
    """The box around all units that are not significantly worse than the best.

    Args:
        box: around their places.
        members: labels of these units.
        places: of these units.
        best: the label of the best unit.
        best_place: where it is.
        best_error: its mean error.
        best_graphs: how many graphs it holds.
        units: how many were compared.
        alpha: the level of the test.
    """

    box: Box
    members: tuple[str, ...]
    places: tuple[Range, ...]
    best: str
    best_place: Range
    best_error: float
    best_graphs: int
    units: int
    alpha: float


def sweet_spot(
    units: Sequence[Unit], *, alpha: float = 0.05, control: bool = False
) -> SweetSpot | None:
    """Find the sweet spot by the published procedure.

    You et al. 2020: every unit is compared with the one of the lowest mean error
    by a one-tailed t-test with pooled variance; those with ``p >= alpha`` are in the sweet
    spot, whose box is around their places.

    Args:
        units: graphs or bins.
        alpha: the level of the test.
        control: whether the share of false discoveries among the units found worse is kept
            below ``alpha`` (Benjamini and Hochberg 1995). Then fewer are found worse, and the
            sweet spot is larger.

    Returns:
        None if no unit has two samples: nothing can be tested then.
    """
    if max((len(unit.samples) for unit in units), default=0) < 2:
        return None
    means = np.array([unit.mean for unit in units])
    deviations = np.array([unit.samples.std() for unit in units])
    best = int(np.lexsort((deviations, means))[0])
    chances = worse_chances(units, best)
    if control:
        chances = adjusted(chances)
    inside = [i for i, chance in enumerate(chances) if i == best or not chance < alpha]
    places = tuple(units[i].place for i in inside)
    return SweetSpot(
        box_around(places),
        tuple(units[i].label for i in inside),
        places,
        units[best].label,
        units[best].place,
        float(means[best]),
        units[best].graphs,
        len(units),
        alpha,
    )


def worse_chances(units: Sequence[Unit], best: int) -> Float[Array, "units"]:
    """The chance that a unit looks as much worse than the best one, if it is equally good.

    Student's one-tailed test with pooled variance; 1 where nothing can be said.
    """
    from scipy.stats import t as student  # noqa: PLC0415 (slow to import)

    counts = np.array([len(unit.samples) for unit in units], dtype=float)
    means = np.array([unit.mean for unit in units])
    squares = np.array([((unit.samples - unit.mean) ** 2).sum() for unit in units])
    freedom = counts + counts[best] - 2
    pooled = (squares + squares[best]) / np.maximum(freedom, 1)
    spread = np.sqrt(pooled * (1 / counts + 1 / counts[best]))
    difference = means - means[best]
    certain = np.where(difference > 0, np.inf, 0.0)
    statistic = np.divide(difference, spread, where=spread > 0, out=certain)
    chances = np.asarray(student.sf(statistic, np.maximum(freedom, 1)))
    return np.where(freedom > 0, chances, 1.0)


def adjusted(chances: Float[Array, "tests"]) -> Float[Array, "tests"]:
    """P-values adjusted so that cutting them at q keeps false discoveries below a share q.

    Benjamini and Hochberg 1995. NaN stays NaN.
    """
    from scipy.stats import false_discovery_control  # noqa: PLC0415 (slow to import)

    found = np.full(len(chances), np.nan)
    known = np.isfinite(chances)
    if known.any():
        found[known] = false_discovery_control(chances[known])
    return found


def box_around(places: Sequence[Range]) -> Box:
    """The smallest box that holds all places."""
    points = np.array(places)
    (c_low, l_low), (c_high, l_high) = points.min(0).tolist(), points.max(0).tolist()
    return Box((c_low, c_high), (l_low, l_high))


def shared_box(boxes: Iterable[Box]) -> Box | None:
    """What all boxes have in common; None if that is nothing.

    >>> shared_box([Box((0.1, 0.5), (1, 3)), Box((0.3, 0.7), (2, 4))])
    Box(clustering=(0.3, 0.5), path_length=(2, 3))
    """
    found = [*boxes]
    if not found:
        return None
    c = max(box.clustering[0] for box in found), min(box.clustering[1] for box in found)
    length = max(box.path_length[0] for box in found), min(box.path_length[1] for box in found)
    return Box(c, length) if c[0] <= c[1] and length[0] <= length[1] else None
