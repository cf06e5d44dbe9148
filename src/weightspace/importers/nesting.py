"""Which axes may reorder independently within each element of another."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence

from weightspace.importers.atoms import Atom, Dim, Sum, flat, leaves

_MOST_BOXES = 4096
_MOST_NEIGHBOURS = 16


def nested_within(
    spaces: Iterable[tuple[Dim, ...]], tensors: Iterable[tuple[Dim, ...]] = ()
) -> dict[Atom, set[Atom]]:
    """For each leaf, the leaves whose every element may reorder its own copy of it.

    A leaf can be nested in another only where the other tells the copies apart: in every
    index space that has the leaf, the other must be there exactly once. Candidates come from
    the splits of the trace and from the dimensions of one tensor (stacked experts); spaces
    that lack the parent strike it out.

    Args:
        spaces: the dimensions of every tensor and of every product that is summed over.
        tensors: the dimensions of every parameter.
    """
    distinct = {tuple(flat(dim) for dim in dims): None for dims in spaces}
    found = {leaf for dims in distinct for dim in dims for leaf in leaves(dim)}
    parents = {leaf: _candidates(leaf) for leaf in found}
    for dims in tensors:
        _add_neighbours(parents, dims)
    parents = {leaf: above for leaf, above in parents.items() if above}
    boxes: dict[tuple[int, ...], Counter[Atom]] = {}
    for dims in distinct:
        if not any(leaf in parents for dim in dims for leaf in leaves(dim)):
            continue
        for box in _boxes(dims):
            boxes.setdefault(tuple(sorted(leaf.number for leaf in box)), Counter(box))
    for box_ in boxes.values():
        for leaf in box_:
            if leaf in parents:
                parents[leaf] = {p for p in parents[leaf] if box_[p] == 1}
    for leaf, above in parents.items():
        above -= {p for p in above if leaf in parents.get(p, ()) and _outer(leaf, p)}
    return {leaf: above for leaf, above in parents.items() if above}


def _outer(leaf: Atom, other: Atom) -> bool:
    """Whether of two axes that could each be within the other, this one is outside.

    The group is larger with the larger axis inside: ``n! (m!)^n > m! (n!)^m`` for ``m > n``.
    """
    return (leaf.size, leaf.number) < (other.size, other.number)


def _add_neighbours(parents: dict[Atom, set[Atom]], dims: tuple[Dim, ...]) -> None:
    """The leaves of one tensor's other dimensions are candidates too."""
    rows = [[leaf for leaf in leaves(dim) if leaf.size > 1 and not leaf.plain] for dim in dims]
    for one, two in itertools.permutations(rows, 2):
        if len(one) + len(two) <= _MOST_NEIGHBOURS:
            for leaf in one:
                parents.setdefault(leaf, set()).update(set(two) - {leaf})


def _candidates(leaf: Atom) -> set[Atom]:
    """The leaves that a leaf's recorded parents have become; sums tell nothing apart."""
    above: set[Atom] = set()
    for parent in leaf.parents:
        parts = flat((parent,))
        if not any(isinstance(part.bound, Sum) for part in parts):
            above.update(part for part in parts if part.size > 1)
    return above - {leaf}


def _boxes(dims: Sequence[Dim]) -> Iterable[tuple[Atom, ...]]:
    """Every combination of segments, as the leaves it holds."""
    choices = [alternatives(dim) for dim in dims]
    total = 1
    for choice in choices:
        total *= len(choice)
    if total > _MOST_BOXES:
        # Too many to look at: every leaf alone is the strictest space there is.
        return [(leaf,) for dim in dims for leaf in leaves(dim)]
    return [tuple(itertools.chain(*combination)) for combination in itertools.product(*choices)]


def alternatives(dim: Dim) -> list[tuple[Atom, ...]]:
    """The leaves of each segment of a dimension."""
    result: list[tuple[Atom, ...]] = [()]
    for atom in flat(dim):
        if isinstance(atom.bound, Sum):
            own = [inner for segment in atom.bound for inner in alternatives(segment)]
        else:
            own = [(atom,)]
        result = [one + two for one in result for two in own]
    return list(dict.fromkeys(result))


def chains(parents: dict[Atom, set[Atom]]) -> dict[Atom, Atom]:
    """One parent for each nested leaf, so that parents form chains.

    A leaf within several others needs them to be nested in each other; where they are not,
    the larger subgroup is kept.
    """
    result: dict[Atom, Atom] = {}
    for leaf in sorted(parents, key=lambda leaf: len(parents[leaf])):
        options = [p for p in parents[leaf] if parents.get(p, set()) <= parents[leaf]]
        if options:
            result[leaf] = max(options, key=lambda p: (_copies(p, result), -p.number))
    return result


def _copies(leaf: Atom, parents: dict[Atom, Atom]) -> int:
    """How many copies a leaf nested in this one has."""
    count, above = leaf.size, parents.get(leaf)
    seen = {leaf}
    while above is not None and above not in seen:
        seen.add(above)
        count *= above.size
        above = parents.get(above)
    return count
