"""Who came from whom: trees of the networks of a folder, from weights alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import minimum_spanning_tree

from weightspace.errors import FileError
from weightspace.find.index import Entry, Index
from weightspace.find.kinship import Kinship, kinship
from weightspace.find.rooting import Link, Reason, rooted

Pair = tuple[int, int]

NEAREST = 8
"""Every network is aligned with so many of its architecture, those of the nearest descriptors."""
OTHERS = 2
"""And with so many of other architectures."""
ALIKE = 0.2
"""And with those whose sketches have this inner product, at the most :data:`MOST` of them."""
MOST = 24
_LEAST = 1e-9


@dataclass(frozen=True, slots=True)
class Step:
    """A network and where it came from.

    Args:
        entry: the network.
        parent: where it came from; None for roots.
        kinship: what it is to the parent: ``one`` is the parent, ``other`` the network.
        reason: how sure the direction is.
    """

    entry: Entry
    parent: Entry | None = None
    kinship: Kinship | None = None
    reason: Reason | Literal[""] = ""


@dataclass(frozen=True)
class Lineage:
    """A forest: every network with its parent, parents before their children.

    Args:
        steps: the networks.
    """

    steps: tuple[Step, ...]

    @property
    def roots(self) -> list[Step]:
        """The networks that came from none, those of large families first."""
        roots = [step for step in self.steps if step.parent is None]
        return sorted(roots, key=lambda step: -self.size(step.entry))

    def children(self, entry: Entry) -> list[Step]:
        """The networks that came from one, the nearest first."""
        return self._children.get(entry.number, [])

    def size(self, entry: Entry) -> int:
        """How many networks came from one, itself included."""
        return self._sizes[entry.number]

    @cached_property
    def _children(self) -> dict[int, list[Step]]:
        found: dict[int, list[Step]] = {}
        for step in self.steps:
            if step.parent is not None:
                found.setdefault(step.parent.number, []).append(step)
        for steps in found.values():
            steps.sort(key=lambda step: step.kinship.distance if step.kinship else 0.0)
        return found

    @cached_property
    def _sizes(self) -> dict[int, int]:
        found = {step.entry.number: 1 for step in self.steps}
        for step in reversed(self.steps):  # parents stand before their children
            if step.parent is not None:
                found[step.parent.number] += found[step.entry.number]
        return found

    def walk(self, root: Step) -> Iterator[tuple[int, Step]]:
        """A network and all that came from it, parents first, with their depth."""
        waiting = [(0, root)]  # not by recursion: chains of checkpoints can be long
        while waiting:
            depth, step = waiting.pop()
            yield depth, step
            waiting += [(depth + 1, child) for child in reversed(self.children(step.entry))]

    def to_dict(self) -> dict[str, Any]:
        """The forest as plain dictionaries."""
        return {"networks": [_step_dict(step) for step in self.steps]}


def trace_lineage(
    index: Index, *, track: Callable[[Sequence[Pair]], Iterable[Pair]] = iter
) -> Lineage:
    """Find out which networks of a folder came from which.

    Networks are aligned two by two, and those that are kin (:func:`kinship`) are joined by the
    minimum spanning tree of the aligned distances: a network comes from the nearest. Which of
    two is older is said by :func:`~weightspace.find.rooting.rooted`, with how sure that is.
    Networks that are kin to none are roots without children.

    Args:
        index: of the folder.
        track: is given the pairs one by one, to show progress.
    """
    entries = index.entries
    kin: dict[Pair, Kinship] = {}
    for pair in track(_pairs(entries, index)):
        found = _kinship(index, *pair)
        if found is not None and found.is_kin:
            kin[pair] = found
    links = [_link(pair, kin[pair]) for pair in _tree(kin, entries)]
    steps = []
    for child, parent, reason in rooted(links, len(entries)):
        if parent is None:
            steps.append(Step(entries[child]))
        else:
            own = kin.get((parent, child)) or _turned(kin[child, parent])
            steps.append(Step(entries[child], entries[parent], own, reason))
    return Lineage(tuple(steps))


def _kinship(index: Index, one: int, other: int) -> Kinship | None:
    pair = index.entries[one], index.entries[other]
    try:
        networks = [index.network(entry) for entry in pair]
    except FileError:
        return None  # It was changed while we looked: the next call reports it.
    return kinship(*networks, features=(pair[0].features, pair[1].features))


def _pairs(entries: Sequence[Entry], index: Index) -> list[Pair]:
    """Which networks are aligned with each other."""
    by_structure: dict[str, list[int]] = {}
    for place, entry in enumerate(entries):
        by_structure.setdefault(entry.structure, []).append(place)
    chosen = set(_alike(index.sketches))
    everything = set(range(len(entries)))
    for places in by_structure.values():
        chosen |= set(_nearest(index.vectors, places, places, NEAREST))
        others = sorted(everything - set(places))
        chosen |= set(_nearest(index.vectors, places, others, OTHERS))
    return sorted(chosen)


def _alike(sketches: np.ndarray) -> Iterator[Pair]:
    """The pairs that are alike in the order that their neurons are in."""
    for one, own in enumerate(sketches):
        products = sketches @ own
        products[one] = -1
        for other in np.argsort(-products, kind="stable")[:MOST]:
            if products[other] < ALIKE:
                break
            yield min(one, int(other)), max(one, int(other))


def _nearest(
    vectors: np.ndarray, ones: Sequence[int], others: Sequence[int], count: int
) -> Iterator[Pair]:
    if not others:
        return
    candidates = np.array(others)
    for one in ones:
        gaps = np.linalg.norm(vectors[candidates] - vectors[one], axis=1)
        near = candidates[np.argsort(gaps, kind="stable")[: count + 1]]
        for other in [int(o) for o in near if o != one][:count]:
            yield min(one, other), max(one, other)


def _tree(kin: Mapping[Pair, Kinship], entries: Sequence[Entry]) -> list[Pair]:
    """The pairs that the minimum spanning tree joins."""
    if not kin:
        return []
    pairs = sorted(kin)
    weights = [_weight(kin[pair], *(entries[place] for place in pair)) for pair in pairs]
    rows, columns = zip(*pairs, strict=True)
    count = len(entries)
    graph = coo_array((weights, (rows, columns)), shape=(count, count)).tocsr()
    tree = minimum_spanning_tree(graph).tocoo()
    return sorted((min(p), max(p)) for p in zip(tree.row.tolist(), tree.col.tolist(), strict=True))


def _weight(kin: Kinship, one: Entry, other: Entry) -> float:
    """A distance; among equal ones, networks that were rounded or reordered are not between."""
    touched = sum(bool(entry.features.rounding.to) for entry in (one, other))
    return kin.distance * (1 + 0.01 * touched + 0.001 * kin.moved) + _LEAST


def _link(pair: Pair, kin: Kinship) -> Link:
    derived = {"one": pair[0], "other": pair[1], "": None}[kin.derived]
    return Link(*pair, kin.distance, derived, kin.rise)


def _turned(kin: Kinship) -> Kinship:
    """A kinship seen from the other network."""
    sides: dict[str, Literal["", "one", "other"]] = {"one": "other", "other": "one", "": ""}
    return replace(kin, derived=sides[kin.derived], rise=-kin.rise)


def _step_dict(step: Step) -> dict[str, Any]:
    kin = step.kinship
    return {
        "name": step.entry.name,
        "parent": None if step.parent is None else step.parent.name,
        "kind": None if kin is None else kin.kind,
        "distance": None if kin is None else kin.distance,
        "similarity": None if kin is None else kin.similarity,
        "shared": None if kin is None else kin.shared,
        "direction": step.reason or None,
        "note": "" if kin is None else kin.note,
        "structure": step.entry.structure,
        "values": step.entry.values,
    }
