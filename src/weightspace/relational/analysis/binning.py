"""Bins of the plane of clustering and path length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Float, Int

Array = npt.NDArray[Any]

_WIDTH_C = 1 / 15
_WIDTH_L = 3.5 / 15


@dataclass(frozen=True, eq=False)
class Bin:
    """A bin that holds graphs.

    Args:
        column: its place along clustering.
        row: its place along path length.
        centre: clustering and path length of its middle.
        members: indices of its graphs.
    """

    column: int
    row: int
    centre: tuple[float, float]
    members: Int[Array, "members"]


@dataclass(frozen=True, eq=False)
class Grid:
    """The edges of bins along clustering and path length.

    The published heatmap has 15 bins along each: ``linspace(0, 1, 16)`` and
    ``linspace(1, 4.5, 16)``. Where graphs have longer paths, bins of the same size go on.

    Args:
        clustering: edges in ascending order.
        path_length: edges in ascending order.
    """

    clustering: Float[Array, "edges"]
    path_length: Float[Array, "edges"]

    @classmethod
    def covering(cls, points: Float[Array, "graphs 2"]) -> Grid:
        """The published edges, and more of them where graphs have longer paths.

        >>> len(Grid.covering(np.array([[0.5, 2.0]])).path_length)
        16
        """
        rows = max(15, int(np.ceil((points[:, 1].max() - 1) / _WIDTH_L - 1e-9)))
        return cls(np.linspace(0, 1, 16), 1 + _WIDTH_L * np.arange(rows + 1))

    def indices(self, points: Float[Array, "graphs 2"]) -> Int[Array, "graphs 2"]:
        """Column and row of each point; the last bins hold their upper edges, too."""
        edges = (self.clustering, self.path_length)
        found = [
            np.clip(np.digitize(points[:, i], edges[i]) - 1, 0, len(edges[i]) - 2) for i in (0, 1)
        ]
        return np.stack(found, 1)

    def fill(self, points: Float[Array, "graphs 2"], *, at_least: int = 1) -> list[Bin]:
        """The bins that hold graphs, by column and row.

        Args:
            points: where graphs lie.
            at_least: bins with fewer graphs are left out.
        """
        places, owners = np.unique(self.indices(points), axis=0, return_inverse=True)
        owners = owners.reshape(-1)
        bins = [
            Bin(int(column), int(row), self.centre(column, row), np.flatnonzero(owners == i))
            for i, (column, row) in enumerate(places)
        ]
        return [made for made in bins if len(made.members) >= at_least]

    def centre(self, column: int, row: int) -> tuple[float, float]:
        """Clustering and path length of a bin's middle."""
        return (
            float(self.clustering[column : column + 2].mean()),
            float(self.path_length[row : row + 2].mean()),
        )
