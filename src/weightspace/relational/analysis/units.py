"""What is compared over the plane: single graphs, or bins of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from weightspace.relational.analysis.binning import Grid
from weightspace.relational.analysis.runs import NetworkRuns

Array = npt.NDArray[Any]
UnitKind = Literal["graphs", "bins"]
Samples = Literal["runs", "means"]

_PER_BIN = 3  # graphs: with fewer on average, graphs speak for themselves


@dataclass(frozen=True, eq=False)
class Unit:
    """A graph or a bin, with what was measured there.

    Args:
        label: the graph's name, or column and row of the bin.
        place: clustering and path length.
        graphs: how many it holds.
        samples: errors; of single runs, or means of graphs.
    """

    label: str
    place: tuple[float, float]
    graphs: int
    samples: Float[Array, "samples"]

    @property
    def mean(self) -> float:
        """The mean of the samples."""
        return float(self.samples.mean())


def natural_kind(runs: NetworkRuns, grid: Grid) -> UnitKind:
    """Bins where they hold three graphs or more on average, else graphs.

    So the published study treats its 3,942 and its 52 graphs.
    """
    return "bins" if len(runs.graphs) >= _PER_BIN * len(grid.fill(runs.places)) else "graphs"


def units_of(
    runs: NetworkRuns,
    grid: Grid,
    *,
    kind: UnitKind,
    samples: Samples = "runs",
    at_least: int = 1,
) -> list[Unit]:
    """The units of a network.

    Args:
        runs: what was measured.
        grid: the bins.
        kind: what a unit is.
        samples: ``runs`` pools every run of a bin's graphs, as published; ``means`` has one
            sample for each graph, since runs of one graph are more alike than those of two.
        at_least: bins with fewer graphs are left out.
    """
    if kind == "graphs":
        return [
            Unit(name, (float(place[0]), float(place[1])), 1, row[np.isfinite(row)])
            for name, place, row in zip(runs.graphs, runs.places, runs.errors, strict=True)
        ]
    means = runs.means
    found = []
    for made in grid.fill(runs.places, at_least=at_least):
        pooled = means[made.members] if samples == "means" else runs.errors[made.members].ravel()
        label = f"bin {made.column}, {made.row}"
        found.append(Unit(label, made.centre, len(made.members), pooled[np.isfinite(pooled)]))
    return found
