"""The networks of a folder that are nearest to one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from weightspace.errors import FileError
from weightspace.find.index import Entry, Index
from weightspace.find.kinship import KINDS, Features, Kinship, kinship
from weightspace.find.network import Network

CANDIDATES = 40
"""Networks, at the least, that descriptors choose, and sketches, and that are then aligned."""

Candidates = list[tuple[Entry, float]]


@dataclass(frozen=True, slots=True)
class Found:
    """A network near to another.

    Args:
        entry: the network.
        kinship: what it is to the one asked for: ``one`` is that, ``other`` is this.
        gap: the distance of the descriptors.
    """

    entry: Entry
    kinship: Kinship
    gap: float

    @property
    def order(self) -> tuple[bool, float, float]:
        """For sorting: kin by distance, then all others by descriptor."""
        kin = self.kinship
        exact = KINDS.index(kin.kind) if kin.kind in {"copy", "permuted copy"} else 2
        if kin.is_kin:
            return False, exact - 2 + kin.distance, self.gap
        return True, self.gap, 0.0


def search(
    query: Network,
    index: Index,
    *,
    top: int = 10,
    track: Callable[[Iterable[tuple[Entry, float]]], Iterable[tuple[Entry, float]]] = iter,
) -> list[Found]:
    """Find the networks that are nearest to one, and say what they are to it.

    The nearest descriptors and the most alike sketches choose candidates, of any architecture;
    those are read and aligned.

    Args:
        query: a network, which need not be of the folder.
        index: of the folder.
        top: how many to find.
        track: is given the candidates one by one, to show progress.
    """
    features = Features.of(query)
    candidates = _candidates(query, features, index, max(CANDIDATES, 2 * top))
    found = []
    for entry, gap in track(candidates):
        try:
            other = index.network(entry)
        except FileError:
            continue  # It was changed while we looked: the next call reports it.
        kin = kinship(query, other, features=(features, entry.features))
        found.append(Found(entry, kin, gap))
    return sorted(found, key=lambda item: item.order)[:top]


def _candidates(query: Network, features: Features, index: Index, count: int) -> Candidates:
    """The nearest descriptors, the most alike sketches, and all with the same values."""
    nearest = index.nearest(features.descriptor, count)
    products = index.sketches @ features.sketch
    alike = [index.entries[place] for place in np.argsort(-products, kind="stable")[:count]]
    copies = [entry for entry in index.entries if entry.sha256 == query.sha256]
    chosen = {entry.number: entry for entry in ([e for e, _ in nearest] + alike + copies)}
    vector = features.descriptor
    return [(e, float(np.linalg.norm(e.features.descriptor - vector))) for e in chosen.values()]
