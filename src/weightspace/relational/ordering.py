"""Orders of a graph's nodes that let neighbouring nodes share what they read."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weightspace.relational.graph import RelationalGraph

Order = tuple[int, ...]
Joined = npt.NDArray[np.bool_]


def banded_order(graph: RelationalGraph) -> Order:
    """The reverse Cuthill-McKee order, in which joined nodes stand near each other.

    >>> from weightspace.relational import ring
    >>> sorted(banded_order(ring(5)))
    [0, 1, 2, 3, 4]
    """
    from scipy.sparse import csr_matrix  # noqa: PLC0415 (slow to import)
    from scipy.sparse.csgraph import reverse_cuthill_mckee  # noqa: PLC0415

    order = reverse_cuthill_mckee(csr_matrix(graph.adjacency), symmetric_mode=True)
    return tuple(int(node) for node in order)


def clustered_order(graph: RelationalGraph, group: int, *, sweeps: int = 4) -> Order:
    """An order whose groups of consecutive nodes have small unions of neighbourhoods.

    Groups are grown one by one: the next node is the one that adds the fewest new neighbours.
    Then nodes are exchanged between groups while that makes the sum of the unions smaller.

    Args:
        graph: whose nodes are ordered.
        group: how many consecutive nodes share their inputs.
        sweeps: at most so many rounds of exchanges.

    >>> from weightspace.relational import complete
    >>> clustered_order(complete(4), 2)
    (0, 1, 2, 3)
    """
    joined = graph.adjacency | np.eye(graph.n, dtype=bool)
    groups = _grown(joined, group)
    for _ in range(sweeps):
        if not _exchanged(joined, groups):
            break
    return tuple(node for members in groups for node in members)


def union_size(graph: RelationalGraph, order: Order, group: int) -> int:
    """How many nodes the groups of an order read, summed over the groups.

    >>> from weightspace.relational import ring
    >>> union_size(ring(8), tuple(range(8)), 4)
    12
    """
    joined = graph.adjacency | np.eye(graph.n, dtype=bool)
    return sum(
        int(joined[list(order[start : start + group])].any(0).sum())
        for start in range(0, graph.n, group)
    )


def _grown(joined: Joined, group: int) -> list[list[int]]:
    """Groups that take in, one by one, the node that adds the least."""
    left = np.ones(len(joined), dtype=bool)
    groups: list[list[int]] = []
    while left.any():
        members: list[int] = []
        union = np.zeros(len(joined), dtype=bool)
        while left.any() and len(members) < group:
            added = (joined & ~union).sum(1).astype(float)
            # Among equals the one that shares most.
            added -= (joined & union).sum(1) / (len(joined) + 1)
            added[~left] = np.inf
            node = int(added.argmin())
            members.append(node)
            union |= joined[node]
            left[node] = False
        groups.append(members)
    return groups


def _exchanged(joined: Joined, groups: list[list[int]]) -> bool:
    """Exchange nodes of two groups wherever that helps; whether any was."""
    better = False
    for i, one in enumerate(groups):
        for other in groups[i + 1 :]:
            for a in range(len(one)):
                better |= _exchange_best(joined, one, other, a)
    return better


def _exchange_best(joined: Joined, one: list[int], other: list[int], a: int) -> bool:
    rest_one = joined[[n for i, n in enumerate(one) if i != a]].any(0)
    before = int((rest_one | joined[one[a]]).sum() + joined[other].any(0).sum())
    best, place = before, -1
    for b, node in enumerate(other):
        rest_other = joined[[n for i, n in enumerate(other) if i != b]].any(0)
        after = int((rest_one | joined[node]).sum() + (rest_other | joined[one[a]]).sum())
        if after < best:
            best, place = after, b
    if place >= 0:
        one[a], other[place] = other[place], one[a]
    return place >= 0
