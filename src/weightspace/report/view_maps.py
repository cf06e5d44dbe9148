"""Heat maps of blocks: a matrix each, made smaller where it is large."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from weightspace.graph import BlockShape, EdgeBlock, GraphSpec
from weightspace.report.view_encoding import Array, encode

SIDES = (256, 160, 128, 96, 64, 48, 32, 24, 16, 12, 8)
CELLS = 250_000
"""How many cells all maps of a page have at the most."""
BANDS = 4
"""Up to so many features of a connection stand side by side; more are pooled, as kernels are."""


@dataclass(frozen=True)
class MapShape:
    """How a block becomes a matrix: a row for each target, a column for each source.

    Args:
        rows: of the whole matrix.
        columns: of the whole matrix.
        bands: how many times the sources stand side by side, once for each feature.
    """

    rows: int
    columns: int
    bands: int

    @classmethod
    def of(cls, block: EdgeBlock, shape: BlockShape) -> MapShape:
        """The matrix of a block; what joins each neuron with itself is one row."""
        if shape.targets == shape.sources == 1:
            return cls(1, shape.groups, 1)
        wide = block.kind == "attention" or 1 < shape.features < BANDS
        bands = shape.features if wide else 1
        return cls(shape.groups * shape.targets, shape.sources * bands, bands)

    def matrix(self, rows: Float[Tensor, "neurons sources features"]) -> list[Array]:
        """The matrix, and one more for each further feature that shares its cells."""
        values: Array = rows.detach().float().cpu().numpy()
        if self.rows == 1:
            values = values.reshape(1, self.columns, -1)
        elif self.bands > 1:
            return [np.moveaxis(values, 2, 1).reshape(self.rows, self.columns)]
        return [values[..., i] for i in range(values.shape[2])]


def target_rows(
    spec: GraphSpec, block: EdgeBlock, edges: Float[Tensor, "groups targets sources features"]
) -> Float[Tensor, "neurons sources features"]:
    """A block's connections by the neurons that they enter, in their node set's order."""
    return at_home(spec, block, block.target, edges.flatten(0, 1))


def at_home(
    spec: GraphSpec, block: EdgeBlock, end: str, values: Float[Tensor, "neurons *more"]
) -> Float[Tensor, "neurons *more"]:
    """Values of a block's neurons, groups first, in the order of the node set at one end."""
    own = spec.node_set(end).axes
    axes = [*block.shared, *(axis for axis in own if axis not in block.shared)]
    if axes == list(own):
        return values
    grid = values.reshape(*(spec.axis(axis).size for axis in axes), *values.shape[1:])
    order = [axes.index(axis) for axis in own]
    return grid.permute(*order, *range(len(axes), grid.ndim)).reshape(values.shape)


def best_side(shapes: Sequence[MapShape]) -> int:
    """The longest side of maps that keeps a page small.

    >>> best_side([MapShape(100, 100, 1)]), best_side([MapShape(3072, 768, 1)] * 48)
    (256, 64)
    """
    for side in SIDES:
        if sum(min(s.rows, side) * min(s.columns, side) for s in shapes) <= CELLS:
            return side
    return SIDES[-1]


def pooled(
    layers: Sequence[Float[Array, "rows columns"]], side: int, bands: int = 1
) -> tuple[Array, Array]:
    """Make a matrix smaller: the mean of each cell, and its value of largest magnitude.

    Args:
        layers: matrices of one shape that share cells.
        side: rows and columns of the result, at the most.
        bands: parts of the columns, of which none shares a cell with another.

    >>> mean, largest = pooled([np.array([[1.0, -3.0], [2.0, 4.0]])], 1)
    >>> float(mean[0, 0]), float(largest[0, 0])
    (1.0, 4.0)
    """
    rows = starts(layers[0].shape[0], side)
    columns = starts(layers[0].shape[1], max(1, side // bands) * bands)
    count = np.outer(_lengths(rows, layers[0].shape[0]), _lengths(columns, layers[0].shape[1]))
    total = sum(_reduce(np.add, layer.astype(np.float64), rows, columns) for layer in layers)
    high = np.max([_reduce(np.maximum, layer, rows, columns) for layer in layers], axis=0)
    low = np.min([_reduce(np.minimum, layer, rows, columns) for layer in layers], axis=0)
    return total / (count * len(layers)), np.where(high >= -low, high, low)


def starts(size: int, side: int) -> Array:
    """Where the cells of a dimension begin: as even as can be, and each index in one cell."""
    cells = min(size, side)
    return np.arange(cells) * size // cells


def encode_map(
    rows: Float[Tensor, "neurons sources features"], shape: MapShape, side: int
) -> dict[str, Any]:
    """A block's map for the page.

    Returns:
        Its size, whether a cell is one connection, and the encoded means and extremes.
    """
    layers = shape.matrix(rows)
    whole = shape.rows <= side and shape.columns <= side and len(layers) == 1
    mean, largest = pooled(layers, side, shape.bands)
    found = {
        "rows": mean.shape[0],
        "columns": mean.shape[1],
        "of": [shape.rows, shape.columns],
        "bands": shape.bands,
        "whole": whole,
        "mean": encode(mean, exact=whole),
    }
    return found if whole else {**found, "largest": encode(largest, exact=False)}


def _lengths(begin: Array, size: int) -> Array:
    return np.diff(np.append(begin, size))


def _reduce(function: np.ufunc, matrix: Array, rows: Array, columns: Array) -> Array:
    result: Array = function.reduceat(function.reduceat(matrix, rows, axis=0), columns, axis=1)
    return result
