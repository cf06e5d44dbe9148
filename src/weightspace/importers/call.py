"""One operation of a trace, as rules see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weightspace.errors import TraceError
from weightspace.importers.atoms import Dim, find, flat, leaves, pin, place, size_of, unify
from weightspace.importers.reshaping import reshape
from weightspace.importers.value import NO_ORIGIN, Draw, Origin, Value, kind_of

Result = Value | tuple[Value | None, ...]
Rule = Callable[["Call"], Result]

RULES: dict[str, Rule] = {}
"""The rule of every operation, by its ATen name without the namespace."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a function as the rule of operations."""

    def register(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return register


@dataclass(slots=True)
class Call:
    """An operation with its arguments by name.

    Args:
        name: the ATen name without the namespace, such as ``"add"``.
        label: unique in the trace.
        args: the arguments; tensors are :class:`Value`.
        shapes: the shapes of the results, None where a result is not a tensor.
        path: the module that the operation is in.
        spaces: the index spaces that nested axes are checked against, to be added to.
        used: which results anything reads, of those operations that have several.
    """

    name: str
    label: str
    args: Mapping[str, Any]
    shapes: tuple[tuple[int, ...] | None, ...]
    path: str
    spaces: list[tuple[Dim, ...]] = field(default_factory=list)
    used: frozenset[int] = frozenset()

    # -- arguments -----------------------------------------------------------------------

    def __getitem__(self, name: str) -> Any:
        return self.args.get(name)

    @property
    def tensors(self) -> tuple[Value, ...]:
        """All tensor arguments, those in lists included, in order."""
        return tuple(_tensors(self.args.values()))

    @property
    def first(self) -> Value:
        """The first tensor argument."""
        return self.tensors[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first result."""
        shape = self.shapes[0]
        assert shape is not None
        return shape

    def fail(self, expected: str, found: str = "") -> TraceError:
        """The error that this operation cannot be followed."""
        shapes = ", ".join(str(value.shape) for value in self.tensors)
        return TraceError(
            f"operation aten.{self.name} in module {self.path or '(the network itself)'}",
            expected=expected,
            found=found or f"tensors of shapes {shapes}",
        )

    # -- results -------------------------------------------------------------------------

    def make(
        self,
        dims: Sequence[Dim],
        inputs: Sequence[Value] | None = None,
        *,
        draw: Draw | None = None,
        origins: Sequence[Origin] | None = None,
        dropped: Iterable[Dim] = (),
        output: int = 0,
    ) -> Value:
        """A result of this operation.

        Args:
            dims: its dimensions.
            inputs: the values it depends on; all tensor arguments if not given.
            draw: what it means; neurons pass through if not given.
            origins: where the dimensions of a value made of parameters come from; the same
                places of the first input of that rank if not given.
            dropped: leaves that were sliced away.
            output: which of the results it is.
        """
        inputs = self.tensors if inputs is None else inputs
        shape = self.shapes[output]
        assert shape is not None
        if tuple(size_of(dim) for dim in dims) != tuple(shape):
            raise self.fail(f"a result of shape {shape}", f"{[size_of(dim) for dim in dims]}")
        kind = kind_of(inputs)
        value = Value(
            self.label if output == 0 else f"{self.label}.{output}",
            tuple(dims),
            kind,
            draw or Draw("pass", tuple(inputs)),
            tuple(shape),
            path=self.path,
            op=self.name,
        )
        if kind == "parameter":
            owners = [v for v in inputs if v.kind == "parameter"]
            value.roots = frozenset().union(*(v.roots for v in owners))
            value.kept = tuple(k for v in owners for k in v.kept)
            value.dropped = tuple(d for v in owners for d in v.dropped) + tuple(dropped)
            value.origins = tuple(origins) if origins else _same_places(owners, len(dims))
        self.spaces.append(value.dims)
        return value

    def opaque(self, reason: str, inputs: Sequence[Value] | None = None) -> Result:
        """Pin everything: a correct, if small, group for what cannot be followed."""
        inputs = self.tensors if inputs is None else inputs
        for value in inputs:
            for dim in value.dims:
                pin(dim, reason)
        draw = Draw("pass", tuple(inputs))
        results = tuple(
            None
            if shape is None
            else self.make([place(n, reason) for n in shape], inputs, draw=draw, output=i)
            for i, shape in enumerate(self.shapes)
        )
        return results if len(results) > 1 else _first(results)


def _first(results: tuple[Value | None, ...]) -> Result:
    value = results[0]
    return (None,) if value is None else value


def _tensors(arguments: Iterable[Any]) -> Iterable[Value]:
    for argument in arguments:
        if isinstance(argument, Value):
            yield argument
        elif isinstance(argument, (list, tuple)):
            yield from _tensors(argument)


def _same_places(owners: Sequence[Value], rank: int) -> tuple[Origin, ...]:
    """Dimensions aligned from the right, as broadcasting does."""
    result = []
    for back in range(rank, 0, -1):
        origin: Origin = NO_ORIGIN
        for value in owners:
            if back <= value.rank and len(value.origins) == value.rank:
                origin |= value.origins[-back]
        result.append(origin)
    return tuple(result)


def broadcast(values: Sequence[Value], shape: Sequence[int]) -> tuple[Dim, ...]:
    """Tie dimensions aligned from the right; sizes of one stretch."""
    result: list[Dim] = []
    for back in range(len(shape), 0, -1):
        size = shape[-back]
        present = [v.dims[-back] for v in values if v.rank >= back]
        wide = [dim for dim in present if size_of(dim) == size]
        if not wide:
            result.append(place(size, "broadcast"))
            continue
        chosen = next((dim for dim in wide if flat(dim)), wide[0])
        for dim in wide:
            if dim is not chosen:
                unify(chosen, dim)
        result.append(chosen)
    return tuple(result)


def positive(dim: int, rank: int) -> int:
    """A dimension counted from the front."""
    return dim + rank if dim < 0 else dim


def dims_argument(value: Any, rank: int) -> list[int]:
    """A list of dimensions, all of them if none is given."""
    if value is None:
        return list(range(rank))
    dims = [value] if isinstance(value, int) else list(value)
    return sorted(positive(dim, rank) for dim in dims) if dims else list(range(rank))


__all__ = [
    "RULES",
    "Call",
    "Result",
    "Rule",
    "broadcast",
    "dims_argument",
    "find",
    "flat",
    "leaves",
    "pin",
    "place",
    "positive",
    "reshape",
    "rule",
    "size_of",
    "unify",
]
