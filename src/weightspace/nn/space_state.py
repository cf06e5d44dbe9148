"""States of a weight space: one matrix for each pair of axes, one vector field for each axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.nn.weight_space import WeightSpace


class SpaceState(NamedTuple):
    """Features of all weights; tensors over the same axes have theirs side by side.

    Args:
        matrices: ``[batch, n, m, channels]`` for each pair of axes.
        vectors: ``[batch, n, channels]`` for each axis.
        scalars: ``[batch, channels]``.
        pools: of the matrices over columns and over rows, where whoever wrote them had them at
            hand.
    """

    matrices: list[Float[Tensor, "batch n m c"]]
    vectors: list[Float[Tensor, "batch n c"]]
    scalars: Float[Tensor, "batch c"]
    pools: list[tuple[Tensor, Tensor]] | None = None


@dataclass(frozen=True)
class Channels:
    """How many channels each part of a state has.

    Args:
        space: the weights.
        widths: for each tensor of the space, the channels of one copy.
    """

    space: WeightSpace
    widths: tuple[int, ...]

    @classmethod
    def equal(cls, space: WeightSpace, width: int) -> Channels:
        """The same channels for a copy of every tensor."""
        return cls(space, (width,) * len(space.tensors))

    @classmethod
    def features(cls, space: WeightSpace) -> Channels:
        """Those of the graph itself."""
        return cls(space, tuple(tensor.features for tensor in space.tensors))

    def of(self, tensor: int) -> int:
        """The channels of a tensor, copies and all."""
        return self.space.tensors[tensor].copies * self.widths[tensor]

    def of_all(self, tensors: Sequence[int]) -> int:
        """The channels of several tensors side by side."""
        return sum(self.of(tensor) for tensor in tensors)

    @cached_property
    def matrices(self) -> list[int]:
        """Channels of the matrices of each pair."""
        space = self.space
        return [self.of_all([i for i, _ in space.matrices(pair)]) for pair in space.pairs]

    @cached_property
    def vectors(self) -> list[int]:
        """Channels of the vectors of each axis."""
        return [self.of_all(self.space.vectors(axis)) for axis in self.space.axes]

    @cached_property
    def scalars(self) -> int:
        """Channels that belong to no axis."""
        return self.of_all(self.space.scalars)

    def ends(self, axis: str) -> list[int]:
        """The parts of what lies on an axis: its vectors, then each matrix's end on it.

        A matrix of an axis with itself has three: rows, columns and diagonal.
        """
        parts = [self.vectors[self.space.axes.index(axis)]]
        for pair, width in zip(self.space.pairs, self.matrices, strict=True):
            parts += [width] * pair.count(axis)
            if pair == (axis, axis):
                parts.append(width)
        return parts

    @cached_property
    def summary(self) -> list[int]:
        """The parts of what lies on no axis: scalars, vectors, matrices, diagonals."""
        tied = [
            width
            for pair, width in zip(self.space.pairs, self.matrices, strict=True)
            if pair[0] == pair[1]
        ]
        return [self.scalars, *self.vectors, *self.matrices, *tied]

    def lift(self, tensors: Sequence[Tensor]) -> SpaceState:
        """Bring tensors ``[batch, *axes, channels]`` of the space to a state."""
        space, batch = self.space, tensors[0]
        matrices = []
        for pair in space.pairs:
            parts = [
                tensors[i].transpose(1, 2) if turned else tensors[i]
                for i, turned in space.matrices(pair)
            ]
            matrices.append(_beside(parts))
        vectors = [
            _beside([tensors[i] for i in space.vectors(axis)], batch.new_empty(len(batch), size, 0))
            for axis, size in space.sizes
        ]
        scalars = _beside([tensors[i] for i in space.scalars], batch.new_empty(len(batch), 0))
        return SpaceState(matrices, vectors, scalars)

    def lower(self, state: SpaceState) -> list[Tensor]:
        """Undo :meth:`lift`."""
        space = self.space
        found: dict[int, Tensor] = {}

        def cut(values: Tensor, tensors: list[int]) -> None:
            parts = torch.split(values, [self.of(i) for i in tensors], dim=-1)
            found.update(zip(tensors, parts, strict=True))

        for pair, values in zip(space.pairs, state.matrices, strict=True):
            cut(values, [i for i, _ in space.matrices(pair)])
            for i, turned in space.matrices(pair):
                found[i] = found[i].transpose(1, 2) if turned else found[i]
        for axis, values in zip(space.axes, state.vectors, strict=True):
            cut(values, space.vectors(axis))
        cut(state.scalars, space.scalars)
        return [found[i] for i in range(len(space.tensors))]


def _beside(parts: Sequence[Tensor], empty: Tensor | None = None) -> Tensor:
    if not parts:
        assert empty is not None
        return empty
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim=-1)
