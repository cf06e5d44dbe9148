"""The dimensions of a network's tensors as products of its neuron axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weightspace.graph import Factor, GraphSpec, Piece

Sizes = Mapping[str, int]
Nodes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Stretch:
    """A range of one dimension: a row-major product of axes and plain sizes.

    Args:
        factors: axis, or None, and size of each, outermost first.
    """

    factors: tuple[tuple[str | None, int], ...]

    def grid(self, sizes: Sizes) -> tuple[int, ...]:
        """The size of each factor when axes have new sizes."""
        return tuple(n if axis is None else sizes.get(axis, n) for axis, n in self.factors)

    def length(self, sizes: Sizes) -> int:
        """How many indices the range then holds."""
        return math.prod(self.grid(sizes))

    @property
    def axes(self) -> tuple[str, ...]:
        """The neuron axes of the range."""
        return tuple(axis for axis, _ in self.factors if axis is not None)

    def neurons(self, sizes: Sizes) -> Nodes:
        """For each index the number of its neuron in the product of the axes alone."""
        grid = self.grid(sizes)
        own = [
            n if axis is not None else 1 for (axis, _), n in zip(self.factors, grid, strict=True)
        ]
        places = np.arange(math.prod(own)).reshape(own)
        return np.broadcast_to(places, grid).ravel()


Dimension = tuple[Stretch, ...]


class AxisShapes:
    """What every dimension of every tensor of a network is made of.

    Args:
        spec: of the network.

    >>> from weightspace.graph import chain_spec
    >>> shapes = AxisShapes(chain_spec([2, 3, 1]))
    >>> name = shapes.spec.parameters[0].name
    >>> axis = shapes.dimensions(name)[0][0].axes[0]
    >>> shapes.shape(name, {axis: 7})
    (7, 2)
    """

    def __init__(self, spec: GraphSpec) -> None:
        self.spec = spec
        self._dimensions: dict[str, tuple[Dimension, ...]] = {}
        #: Axes that cannot change their size, because a tensor holds parts of them.
        self.stiff: set[str] = {a.name for a in spec.axes if a.role != "hidden" or not a.permutes}
        pieces: dict[str, list[Piece]] = {}
        for piece in spec.pieces:
            pieces.setdefault(piece.parameter, []).append(piece)
        for parameter in spec.parameters:
            self._dimensions[parameter.name] = tuple(
                self._dimension(pieces.get(parameter.name, []), place, size)
                for place, size in enumerate(parameter.shape)
            )

    def dimensions(self, parameter: str) -> tuple[Dimension, ...]:
        """The dimensions of a tensor."""
        return self._dimensions[parameter]

    def __contains__(self, parameter: str) -> bool:
        return parameter in self._dimensions

    def __iter__(self) -> Iterator[str]:
        return iter(self._dimensions)

    def shape(self, parameter: str, sizes: Sizes) -> tuple[int, ...]:
        """The shape of a tensor when axes have new sizes."""
        return tuple(
            sum(stretch.length(sizes) for stretch in dimension)
            for dimension in self._dimensions[parameter]
        )

    def _dimension(self, pieces: list[Piece], place: int, size: int) -> Dimension:
        """The ranges that tile a dimension; where they do not, its axes keep their sizes."""
        found: dict[int, set[tuple[Factor, ...]]] = {}
        for piece in pieces:
            span = piece.spans[place]
            found.setdefault(span.start, set()).add(span.factors)
        stretches: list[Stretch] = []
        end = 0
        sound = True
        for start in sorted(found):
            kinds = {tuple((f.axis, f.size) for f in factors) for factors in found[start]}
            whole = all(f.full == f.size for factors in found[start] for f in factors)
            sound &= start == end and len(kinds) == 1 and whole
            factors = next(iter(found[start]))
            end = start + math.prod(f.full for f in factors)
            stretches.append(Stretch(tuple((f.axis, f.size) for f in factors)))
        if sound and end == size:
            return tuple(stretches)
        self.stiff.update(axis for stretch in stretches for axis in stretch.axes)
        return (Stretch(((None, size),)),)
