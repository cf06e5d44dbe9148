"""Symbolic dimensions: products and sums of atoms that are refined as a trace demands.

A tensor's dimension is a row-major product of *atoms*. An atom starts as a leaf (one set of
indices that move together). A reshape can bind it to a product of finer atoms, a slice or
a concatenation to a sum of segments; ties between tensors merge atoms. Every tensor that
mentions an atom sees the refinement at once, so the whole network ends with one consistent
set of leaves: these become the axes of its graph.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

Dim = tuple["Atom", ...]
"""A dimension: the row-major product of atoms; the empty product has size one."""

_numbers = itertools.count()


class Product(tuple["Atom", ...]):
    """What an atom is bound to when it is a product: the factors, outermost first."""


class Sum(tuple[Dim, ...]):
    """What an atom is bound to when it is a sum: the segments, in order."""


class Atom:
    """One set of indices that a symmetry moves together, until it is refined or merged.

    Args:
        size: how many indices there are.
        pin: why the indices cannot be reordered; empty if they can.
        plain: whether they are places (batch, positions, samples) rather than neurons.
        loose: whether nobody needs to know which part of it a slice takes: it is fixed
            anyway, so a part is simply a new atom.
        parents: atoms whose elements may each reorder their own copy of this one.
    """

    __slots__ = ("bound", "loose", "neuron", "number", "parents", "pin", "plain", "role", "size")

    def __init__(
        self,
        size: int,
        *,
        pin: str = "",
        plain: bool = False,
        loose: bool = False,
        parents: Iterable[Atom] = (),
    ) -> None:
        self.size = size
        self.pin = pin
        self.plain = plain
        self.loose = loose
        self.parents = set(parents)
        self.bound: Atom | Product | Sum | None = None
        self.neuron = False
        self.role = ""
        self.number = next(_numbers)

    def __repr__(self) -> str:
        atom = find(self)
        if isinstance(atom.bound, Sum):
            inner = " + ".join(" ".join(map(repr, dim)) for dim in atom.bound)
            return f"({inner})"
        if isinstance(atom.bound, Product):
            return f"({' '.join(map(repr, atom.bound))})"
        return f"a{atom.number}:{atom.size}{'!' if atom.pin else ''}"


def find(atom: Atom) -> Atom:
    """The atom that stands for this one after all merges."""
    while isinstance(atom.bound, Atom):
        following = atom.bound
        if isinstance(following.bound, Atom):
            atom.bound = following.bound
        atom = following
    return atom


def flat(dim: Iterable[Atom]) -> Dim:
    """The product as leaves and sums, all products multiplied out."""
    result: list[Atom] = []
    for atom in dim:
        root = find(atom)
        if isinstance(root.bound, Product):
            result.extend(flat(root.bound))
        else:
            result.append(root)
    return tuple(result)


def size_of(dim: Iterable[Atom]) -> int:
    """The number of indices of a dimension."""
    return math.prod(atom.size for atom in dim)


def segments(dim: Dim) -> list[Dim]:
    """The segments of a dimension that is a single sum; else the dimension itself."""
    dim = flat(dim)
    if len(dim) == 1 and isinstance(dim[0].bound, Sum):
        return [part for segment in dim[0].bound for part in segments(segment)]
    return [dim]


def leaves(dim: Iterable[Atom]) -> Iterator[Atom]:
    """Every leaf of a dimension, those of all segments of its sums included."""
    for atom in flat(dim):
        if isinstance(atom.bound, Sum):
            for segment in atom.bound:
                yield from leaves(segment)
        else:
            yield atom


def pin(dim: Iterable[Atom], reason: str) -> None:
    """Forbid reordering a dimension's indices."""
    for leaf in leaves(dim):
        leaf.pin = leaf.pin or reason


def is_loose(dim: Iterable[Atom]) -> bool:
    """Whether all leaves are fixed, and no tensor of the network has them."""
    return all(leaf.loose for leaf in leaves(dim))


def place(size: int, reason: str = "positions") -> Dim:
    """A new dimension of places, which are never reordered."""
    return () if size == 1 else (Atom(size, pin=reason, plain=True, loose=True),)


def fixed(size: int, reason: str) -> Dim:
    """A new dimension of a constant: fixed, but it may turn out to run over neurons."""
    return () if size == 1 else (Atom(size, pin=reason, loose=True),)


def as_atom(dim: Dim) -> Atom:
    """One atom for a whole product."""
    dim = flat(dim)
    if len(dim) == 1:
        return dim[0]
    atom = Atom(size_of(dim))
    atom.bound = Product(dim)
    return atom


def free(size: int) -> Dim:
    """A new dimension of equal copies, whose order has no effect."""
    return () if size == 1 else (Atom(size),)


# -- merging -------------------------------------------------------------------------------


def unify(one: Dim, two: Dim) -> None:
    """Declare two dimensions of one size to be the same, refining both as needed.

    Where the two cannot be refined to a common product, both are pinned: less symmetry
    than there is, never more.
    """
    left = [atom for atom in flat(one) if atom.size != 1]
    right = [atom for atom in flat(two) if atom.size != 1]
    if not left and not right:
        _unify_units(flat(one), flat(two))
        return
    while left and right:
        a, b = find(left.pop()), find(right.pop())
        if isinstance(a.bound, Product) or isinstance(b.bound, Product):
            left.extend(atom for atom in flat((a,)) if atom.size != 1)
            right.extend(atom for atom in flat((b,)) if atom.size != 1)
            continue
        if a is b:
            continue
        if a.size == b.size:
            merge(a, b)
            continue
        inner = math.gcd(a.size, b.size)
        if inner == 1 or not (_refined(left, a, inner) and _refined(right, b, inner)):
            for atom in (a, b, *left, *right):
                pin((atom,), "two products that do not match")
            return


def _unify_units(one: Dim, two: Dim) -> None:
    if len(one) == 1 and len(two) == 1 and one[0] is not two[0]:
        a, b = one[0], two[0]
        if a.bound is None and b.bound is None:
            merge(a, b)


def _refined(rest: list[Atom], atom: Atom, inner: int) -> bool:
    """Split an atom so that its innermost factor has a given size, and put it back."""
    if atom.size == inner:
        rest.append(atom)
        return True
    parts = split(atom, inner)
    if parts is None:
        return False
    rest.extend(part for part in flat(parts) if part.size != 1)
    return True


def merge(a: Atom, b: Atom) -> None:
    """Declare two atoms of one size to be the same."""
    a, b = find(a), find(b)
    if a is b:
        return
    if a.bound is None and b.bound is None:
        if b.number < a.number:
            a, b = b, a
        a.pin = a.pin or b.pin
        a.plain = a.plain or b.plain
        a.loose = a.loose and b.loose
        a.neuron = a.neuron or b.neuron
        a.role = a.role or b.role
        a.parents |= b.parents
        b.bound = a
    elif a.bound is None or b.bound is None:
        leaf, other = (a, b) if a.bound is None else (b, a)
        if leaf in set(leaves((other,))):
            return
        if leaf.pin:
            pin((other,), leaf.pin)
        for part in leaves((other,)):
            part.neuron = part.neuron or leaf.neuron
            part.role = part.role or leaf.role
            part.plain = part.plain or leaf.plain
            part.loose = part.loose and leaf.loose
        leaf.bound = other
    elif isinstance(a.bound, Sum) and isinstance(b.bound, Sum):
        _merge_sums(a, b)
    else:
        unify((a,), (b,))


def _merge_sums(a: Atom, b: Atom) -> None:
    """Bring two sums to common boundaries and merge them segment by segment."""
    one, two = segments((a,)), segments((b,))
    common: list[Dim] = []
    while one and two:
        x, y = one.pop(0), two.pop(0)
        width = min(size_of(x), size_of(y))
        if size_of(x) > width:
            x, rest = cut(x, width)
            one.insert(0, rest)
        if size_of(y) > width:
            y, rest = cut(y, width)
            two.insert(0, rest)
        unify(x, y)
        common.append(x)
    if not isinstance(find(a).bound, Sum) or not isinstance(find(b).bound, Sum):
        unify((a,), (b,))
        return
    a.bound = Sum(common)
    if find(b) is not a:
        b.bound = a


# -- refining ------------------------------------------------------------------------------


def split(atom: Atom, inner: int) -> Dim | None:
    """Split an atom into an outer factor and an inner one; None if it cannot be."""
    atom = find(atom)
    if atom.size % inner:
        return None
    if atom.size == inner:
        return (atom,)
    if inner == 1:
        return (atom,)
    if isinstance(atom.bound, Product):
        return None
    if isinstance(atom.bound, Sum):
        return _split_sum(atom, inner)
    parent = _part(atom, atom.size // inner)
    child = _part(atom, inner)
    child.parents.add(parent)
    atom.bound = Product((parent, child))
    return (parent, child)


def _part(atom: Atom, size: int) -> Atom:
    """A new leaf that takes over an atom's properties."""
    part = Atom(size, pin=atom.pin, plain=atom.plain, loose=atom.loose, parents=atom.parents)
    part.neuron = atom.neuron
    part.role = atom.role
    return part


def _split_sum(atom: Atom, inner: int) -> Dim | None:
    """Take one inner factor out of all segments of a sum, tying them."""
    parts = segments((atom,))
    if any(size_of(part) % inner for part in parts):
        return None
    outers: list[Dim] = []
    inners: list[Dim] = []
    for part in parts:
        halves = regroup(part, [size_of(part) // inner, inner])
        if halves is None:
            return None
        outers.append(halves[0])
        inners.append(halves[1])
    for other in inners[1:]:
        unify(inners[0], other)
    outer = Atom(atom.size // inner)
    outer.bound = Sum(o if size_of(o) > 1 else (Atom(1, pin="a segment"),) for o in outers)
    result = (outer, *flat(inners[0]))
    if find(atom) is atom:
        atom.bound = Product(result)
    return result


def regroup(dim: Dim, sizes: Sequence[int]) -> list[Dim] | None:
    """Write a product as dimensions of given sizes; None if its atoms cannot be split so."""
    rest = [atom for atom in flat(dim) if atom.size != 1]
    result: list[Dim] = []
    for size in reversed(sizes):
        taken: list[Atom] = []
        need = size
        while need > 1:
            if not rest:
                return None
            atom = find(rest.pop())
            if isinstance(atom.bound, Product):
                rest.extend(a for a in flat((atom,)) if a.size != 1)
                continue
            if need % atom.size == 0:
                taken.insert(0, atom)
                need //= atom.size
                continue
            common = math.gcd(atom.size, need)
            parts = split(atom, common) if common > 1 else None
            if parts is None or len(parts) == 1:
                return None
            rest.extend(a for a in flat(parts) if a.size != 1)
        result.insert(0, tuple(taken))
    return None if rest else result


def cut(dim: Dim, place_: int) -> tuple[Dim, Dim]:
    """Cut a dimension in two at an index."""
    return narrow(dim, 0, place_), narrow(dim, place_, size_of(dim))


def narrow(dim: Dim, start: int, stop: int) -> Dim:  # noqa: PLR0911
    """The dimension of the indices from start up to stop, refining it as needed."""
    dim = tuple(atom for atom in flat(dim) if atom.size != 1) or flat(dim)
    if (start, stop) == (0, size_of(dim)):
        return dim
    if stop <= start:
        return (Atom(0, pin="empty", plain=True, loose=True),)
    if is_loose(dim):
        return _loose_part(dim, stop - start)
    head, tail = dim[0], dim[1:]
    inner = size_of(tail)
    if not tail:
        return _narrow_atom(head, start, stop)
    if start % inner == 0 and stop % inner == 0:
        return (*_narrow_atom(head, start // inner, stop // inner), *flat(tail))
    if start // inner == (stop - 1) // inner:
        row = start // inner
        unit = _narrow_atom(head, row, row + 1)
        return (*unit, *narrow(tail, start - row * inner, stop - row * inner))
    first = -(-start // inner) * inner
    last = stop // inner * inner
    bounds = sorted({start, first, last, stop})
    return concat([narrow(dim, a, b) for a, b in itertools.pairwise(bounds)])


def _loose_part(dim: Dim, size: int) -> Dim:
    """A fixed dimension that shares nothing with the one it was made from."""
    reason = next((leaf.pin for leaf in leaves(dim) if leaf.pin), "positions")
    plain = any(leaf.plain for leaf in leaves(dim))
    return () if size == 1 else (Atom(size, pin=reason, plain=plain, loose=True),)


def _narrow_atom(atom: Atom, start: int, stop: int) -> Dim:
    atom = find(atom)
    if (start, stop) == (0, atom.size):
        return (atom,)
    if isinstance(atom.bound, Product):
        return narrow((atom,), start, stop)
    if atom.bound is None:
        bounds = sorted({0, start, stop, atom.size})
        atom.bound = Sum((_part(atom, b - a),) for a, b in itertools.pairwise(bounds))
        return atom.bound[bounds.index(start)]
    parts: list[Dim] = []
    place_ = 0
    for segment in segments((atom,)):
        size = size_of(segment)
        low, high = max(start, place_), min(stop, place_ + size)
        if low < high:
            parts.append(narrow(segment, low - place_, high - place_))
        place_ += size
    return parts[0] if len(parts) == 1 else concat(parts)


def concat(dims: Sequence[Dim]) -> Dim:
    """The dimension of several dimensions one after another."""
    dims = [dim for dim in dims if size_of(dim) > 0]
    if len(dims) == 1:
        return flat(dims[0])
    if all(is_loose(dim) for dim in dims):
        return _loose_part(tuple(a for dim in dims for a in dim), sum(map(size_of, dims)))
    atom = Atom(sum(size_of(dim) for dim in dims))
    atom.bound = Sum(dim if flat(dim) else (Atom(1, pin="a segment"),) for dim in dims)
    return (atom,)
