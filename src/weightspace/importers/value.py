"""Values of a trace: tensors with symbolic dimensions, and how they came about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from weightspace.importers.atoms import Dim

Kind = Literal["activation", "parameter", "constant"]
Origin = frozenset[tuple[str, int]]
"""The (tensor, dimension) pairs of the state dict that a value's dimension descends from."""

NO_ORIGIN: Origin = frozenset()


@dataclass(frozen=True, slots=True)
class Draw:
    """What an operation means for the picture of the network.

    Args:
        kind: ``input``, ``parameter``, ``constant``, ``pass`` (neurons go through),
            ``pointwise`` (a function of each neuron), ``elementwise`` (neurons meet neurons
            or parameters), ``contract`` (a weighted sum), ``norm``, ``embedding``,
            ``attention``, ``recurrent``.
        operands: the values that went in.
        details: what the kind needs beyond.
    """

    kind: str
    operands: tuple[Value, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Value:
    """A tensor of the network with the meaning of each of its dimensions.

    Args:
        name: unique in the trace.
        dims: one symbolic dimension for each dimension of the tensor.
        kind: whether it depends on the inputs, on parameters alone, or on neither.
        draw: the operation that made it.
        origins: for a value made of parameters, where each dimension comes from.
        roots: the tensors of the state dict that a value made of parameters depends on.
        dropped: what was sliced away since those tensors, where only its leaves are known.
        exact: for each dimension, the tensor, dimension and first index that it is a plain
            range of, as long as it is.
        kept: the ranges (tensor, dimension, start, stop) of the tensors that slices left.
        path: the module that made it.
        op: the operation that made it.
    """

    name: str
    dims: tuple[Dim, ...]
    kind: Kind
    draw: Draw
    shape: tuple[int, ...] = ()
    origins: tuple[Origin, ...] = ()
    roots: frozenset[str] = frozenset()
    dropped: tuple[Dim, ...] = ()
    path: str = ""
    op: str = ""
    exact: tuple[tuple[str, int, int] | None, ...] = ()
    kept: tuple[tuple[str, int, int, int], ...] = ()

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.dims)


def kind_of(values: Sequence[Value]) -> Kind:
    """The kind of what is computed from values."""
    kinds = {value.kind for value in values}
    if "activation" in kinds:
        return "activation"
    return "parameter" if "parameter" in kinds else "constant"


def origins_of(value: Value) -> tuple[Origin, ...]:
    """Where each dimension of a value comes from, as far as that is known."""
    return value.origins if len(value.origins) == value.rank else (NO_ORIGIN,) * value.rank
