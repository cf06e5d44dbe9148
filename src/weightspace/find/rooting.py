"""Giving trees of networks a direction: which network of each pair was there first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order, connected_components, shortest_path

Reason = Literal["proved", "peaks", "centre", "undecided"]
"""How the direction of a step is known, from sure to not at all."""

CLEAR = 0.1
"""A rise of the peaks (:func:`~weightspace.find.kinship.peak_rise`) that decides a direction.

Measured on fine-tunes of small networks (docs/find.md): where it was at least this, the
network with the higher peak was the fine-tune in all cases, and so it was in all steps from an
initialisation to a trained network. Below it says little."""
COPIES = 1e-5
"""The distance of copies, of which none is older for all that can be known."""
_PROOF, _PEAK = 100.0, 1.0


@dataclass(frozen=True, slots=True)
class Link:
    """Two networks that are joined.

    Args:
        one: a network's number.
        other: another's.
        distance: between them.
        derived: which of them was made of the other, if that is proved.
        rise: of the peaks from the one to the other.
    """

    one: int
    other: int
    distance: float
    derived: int | None = None
    rise: float = 0.0


def rooted(links: Sequence[Link], count: int) -> Iterator[tuple[int, int | None, Reason]]:
    """Choose the root of every tree of a forest, and give each network its parent.

    The root is the network for which the steps away from it agree best with the evidence:
    rounding or zeros that the other network does not have prove what was made of what; a clear
    rise of the peaks makes it likely. Among equals it is the centre, from which the sum of the
    distances is least: of a network and its fine-tunes, that is the network.

    Args:
        links: the edges of a forest.
        count: how many networks there are.

    Yields:
        Each network, its parent, and how the direction of that step is known; parents first.

    >>> star = [Link(0, 1, 1.0), Link(1, 2, 1.0)]
    >>> list(rooted(star, 3))
    [(1, None, 'undecided'), (0, 1, 'centre'), (2, 1, 'centre')]
    """
    ends = [(link.one, link.other) for link in links]
    by_ends = {
        end: link for link, pair in zip(links, ends, strict=True) for end in (pair, pair[::-1])
    }
    rows, columns = zip(*ends, strict=True) if ends else ((), ())
    weights = [link.distance + 1e-9 for link in links]
    graph = coo_array((weights, (rows, columns)), shape=(count, count)).tocsr()
    graph = graph + graph.T
    _, labels = connected_components(graph, directed=False)
    for label in range(max(labels, default=-1) + 1):
        places = np.flatnonzero(labels == label)
        yield from _family(graph[places][:, places], places.tolist(), by_ends)


def _family(
    graph: coo_array,
    places: list[int],
    links: dict[tuple[int, int], Link],
) -> Iterator[tuple[int, int | None, Reason]]:
    """One tree, from the root that agrees best with the evidence."""
    reach = shortest_path(graph, directed=False).sum(1)

    def walk(root: int) -> list[tuple[int, int]]:
        order, before = breadth_first_order(graph, root, directed=False)
        return [(places[child], places[before[child]]) for child in order[1:]]

    def score(root: int) -> tuple[float, float]:
        steps = walk(root)
        evidence = sum(_evidence(links[child, up], child) for child, up in steps)
        return round(evidence, 6), -round(float(reach[root]), 9)

    root = max(range(len(places)), key=score)
    yield places[root], None, "undecided"
    for child, parent in walk(root):
        yield child, parent, _reason(links[child, parent], child, len(places))


def _evidence(link: Link, child: int) -> float:
    """How much speaks for a network's being the younger one of a pair."""
    if link.derived is not None:
        return _PROOF if link.derived == child else -_PROOF
    rise = link.rise if child == link.other else -link.rise
    return 0.0 if abs(rise) < CLEAR else float(np.sign(rise)) * _PEAK


def _reason(link: Link, child: int, family: int) -> Reason:
    evidence = _evidence(link, child)
    if evidence >= _PROOF:
        return "proved"
    if evidence >= _PEAK:
        return "peaks"
    told = evidence == 0 and family > 2 and link.distance > COPIES
    return "centre" if told else "undecided"
