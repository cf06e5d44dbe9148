"""Bindings: how a parameter tensor is read into a graph's features and written back.

A parameter's dimensions are products of neuron axes and plain sizes (kernel positions,
spatial positions, gates). A :class:`Piece` names that product for one region of one
tensor; reading is a slice, a reshape and a transposition, and writing is the inverse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from weightspace.errors import SpecError

Side = Literal["target", "source", "shared", "feature"]


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor of a dimension.

    Args:
        size: its extent.
        axis: the neuron axis it is, or None for a plain size.
        side: where it goes in the features: the target's neurons, the source's, neurons that
            both share (a diagonal block, a group), or the feature channels.
        start: the first index of the factor that belongs to the piece. A tensor that keeps
            query, key and value rows side by side for each head has three pieces, each
            with one range of the rows of every head.
        extent: how many indices the factor has in the tensor; its size if not given.
    """

    size: int
    axis: str | None
    side: Side
    start: int = 0
    extent: int | None = None

    @property
    def full(self) -> int:
        """How many indices the factor has in the tensor."""
        return self.size if self.extent is None else self.extent

    def __post_init__(self) -> None:
        if self.start < 0 or self.start + self.size > self.full:
            raise SpecError(
                "factor",
                expected=f"a range within {self.full} indices",
                found=f"[{self.start}, {self.start + self.size})",
            )
        if (self.axis is None) != (self.side == "feature"):
            raise SpecError(
                "factor",
                expected="an axis on every side but 'feature'",
                found=f"axis {self.axis!r} on side {self.side!r}",
            )


@dataclass(frozen=True, slots=True)
class Span:
    """A range of one tensor dimension, as a row-major product of factors.

    Args:
        factors: outermost first; an empty product has length one.
        start: the first index of the range.
    """

    factors: tuple[Factor, ...] = ()
    start: int = 0

    @property
    def length(self) -> int:
        """How many indices the range holds."""
        return math.prod(factor.full for factor in self.factors)


@dataclass(frozen=True, slots=True)
class Weighing:
    """How a rescaling acts on a piece: multiply along one dimension by ``factor ** power``."""

    rescaling: str
    dimension: int
    power: int


@dataclass(frozen=True, slots=True)
class Mixed:
    """How a mixing acts on a piece: along one dimension, by ``M`` or by ``M^-T``."""

    mixing: str
    dimension: int
    inverse: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """A region of a parameter tensor and the meaning of each of its dimensions.

    Args:
        parameter: the tensor's name in the state dict.
        spans: one for each dimension of the tensor.
        weighings: the rescalings that act on it.
        mixed: the mixings that act on it.

    >>> rows, columns = Factor(3, "out", "target"), Factor(2, "in", "source")
    >>> Piece("0.weight", (Span((rows,)), Span((columns,)))).region
    (slice(0, 3, None), slice(0, 2, None))
    """

    parameter: str
    spans: tuple[Span, ...]
    weighings: tuple[Weighing, ...] = ()
    mixed: tuple[Mixed, ...] = ()

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The factors of all dimensions, in memory order."""
        return tuple(factor for span in self.spans for factor in span.factors)

    @property
    def region(self) -> tuple[slice, ...]:
        """The slices that cut the region out of the tensor."""
        return tuple(slice(span.start, span.start + span.length) for span in self.spans)

    @property
    def features(self) -> int:
        """How many feature channels the piece fills."""
        return math.prod(f.size for f in self.factors if f.side == "feature")

    @property
    def grid(self) -> tuple[int, ...]:
        """The piece's shape with every factor as a dimension of its own."""
        return tuple(factor.size for factor in self.factors)

    @property
    def ranges(self) -> tuple[slice, ...]:
        """The ranges of the factors within the region."""
        return tuple(slice(f.start, f.start + f.size) for f in self.factors)

    @property
    def cells(self) -> tuple[tuple[int, int, tuple[tuple[int, int, int], ...]], ...]:
        """Which values of the tensor the piece holds, whatever they mean."""
        return tuple(
            (span.start, span.length, tuple((f.start, f.size, f.full) for f in span.factors))
            for span in self.spans
        )

    def side(self, side: Side) -> tuple[str, ...]:
        """The axes on one side, in memory order."""
        return tuple(f.axis for f in self.factors if f.side == side and f.axis is not None)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A tensor of the network's state dict.

    Args:
        name: its key.
        shape: its shape.
        dtype: its type as torch spells it, without the ``torch.`` prefix.
        buffer: whether it is a buffer (running statistics) rather than a trained parameter.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    buffer: bool = False

    @property
    def numel(self) -> int:
        """The number of values."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A tensor that no node or edge holds, and why.

    Args:
        parameter: the tensor.
        reason: why no node or edge holds it.
        same_as: the tensor of the graph that this one is a second name of (tied weights).
    """

    parameter: Parameter
    reason: str
    same_as: str | None = None
