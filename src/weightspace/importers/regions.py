"""Cutting a parameter tensor into regions that are products of leaves."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from weightspace.importers.atoms import Atom, Dim, Sum, flat, pin, size_of

_MOST = 200_000


@dataclass(frozen=True, slots=True)
class Part:
    """A leaf, or a range of a larger factor that a leaf is.

    Args:
        leaf: the leaf; None for one index of a fixed factor.
        start: its first index within the factor.
        extent: the factor's size in the tensor.
    """

    leaf: Atom | None
    start: int
    extent: int

    @property
    def size(self) -> int:
        """How many indices it has."""
        return 1 if self.leaf is None else self.leaf.size


@dataclass(frozen=True, slots=True)
class Stretch:
    """A range of one dimension of a tensor: a start and a row-major product of parts."""

    start: int
    parts: tuple[Part, ...]

    @property
    def length(self) -> int:
        """How many indices of the tensor it spans."""
        length = 1
        for part in self.parts:
            length *= part.extent
        return length

    @property
    def leaves(self) -> tuple[Atom, ...]:
        """The leaves, outermost first."""
        return tuple(part.leaf for part in self.parts if part.leaf is not None)


Region = tuple[Stretch, ...]
"""One stretch for each dimension of a tensor."""


def regions(dims: tuple[Dim, ...]) -> list[Region]:
    """Every region of a tensor, together covering it once."""
    choices = [stretches(dim) for dim in dims]
    total = 1
    for choice in choices:
        total *= len(choice)
    if total > _MOST:
        raise ValueError(f"{total} regions in one tensor")
    return list(itertools.product(*choices))


def stretches(dim: Dim) -> list[Stretch]:
    """The segments of a dimension, each a product."""
    result = [Stretch(0, ())]
    whole = 1
    for atom in reversed(flat(dim)):
        result = [s for own in _of_atom(atom) for s in _times(atom.size, own, whole, result)]
        whole *= atom.size
    return result


def _of_atom(atom: Atom) -> list[Stretch]:
    if not isinstance(atom.bound, Sum):
        return [Stretch(0, (Part(atom, 0, atom.size),))]
    result: list[Stretch] = []
    start = 0
    for segment in atom.bound:
        result.extend(Stretch(start + s.start, s.parts) for s in stretches(segment))
        start += size_of(segment)
    return result


def _times(size: int, outer: Stretch, whole: int, inners: list[Stretch]) -> list[Stretch]:
    """The product of one stretch of an outer factor with all stretches of an inner one."""
    result: list[Stretch] = []
    for inner in inners:
        first = outer.start * whole
        if inner.start == 0 and inner.length == whole:
            result.append(Stretch(first, outer.parts + inner.parts))
        elif outer.length == 1:
            result.append(Stretch(first + inner.start, outer.parts + inner.parts))
        else:
            result.extend(_embedded(outer, inner, whole, first))
    return result


def _embedded(outer: Stretch, inner: Stretch, whole: int, first: int) -> list[Stretch]:
    """A range of an inner factor, for every index of the outer one."""
    if not inner.parts:
        inner = Stretch(inner.start, (Part(None, 0, 1),))
    head, *tail = inner.parts
    step = inner.length // head.extent
    if whole % step == 0 and inner.start % step == 0:
        wide = Part(head.leaf, head.start + inner.start // step, whole // step)
        return [Stretch(first, (*outer.parts, wide, *tail))]
    pin(outer.leaves, "segments that do not align")
    base = outer.start * whole
    return [Stretch(base + i * whole + inner.start, inner.parts) for i in _indices(outer)]


def _indices(stretch: Stretch) -> list[int]:
    """The indices that a stretch's parts take within it."""
    indices = [0]
    for part in stretch.parts:
        own = range(part.start, part.start + part.size)
        indices = [i * part.extent + j for i in indices for j in own]
    return indices
