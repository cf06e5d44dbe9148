"""Which rescalings act at which end of which connections, read off the parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from weightspace.graph.axis import RescalingKind
from weightspace.graph.binding import Piece, Weighing
from weightspace.graph.spec import GraphSpec

Names = frozenset[str]
Evidence = dict[int, set[Names]]


@dataclass(frozen=True)
class Freedom:
    """By what the neurons of a node set may be multiplied.

    Args:
        sign: by signs.
        scale: by positive numbers.
        channels: for each feature channel of the node set, whether it is multiplied, too.
    """

    sign: bool
    scale: bool
    channels: tuple[bool, ...]


@dataclass(frozen=True)
class Rescaled:
    """How the rescalings of a spec act on its node sets.

    Args:
        freedoms: of each node set, in order.
        leftover: rescalings that act on some connections of a node set and not on others, so
            that the node set as a whole has no freedom. A softmax attention's values can be
            rescaled, its queries and keys cannot.
    """

    freedoms: tuple[Freedom, ...]
    leftover: frozenset[str]


@lru_cache(maxsize=256)
def rescaled(spec: GraphSpec) -> Rescaled:
    """Derive which node sets can be rescaled as wholes.

    A piece says which factors multiply which of its dimensions, and a dimension is of the
    target's neurons, of the source's, or of both; then positive powers act at the target and
    negative ones at the source. A node set has a freedom if all pieces of all its connections
    agree at its end. An identity connection has no pieces; both its ends have the same freedom.

    >>> from weightspace.graph import chain_spec
    >>> spec = chain_spec([2, 4, 4, 4, 1], activations=["tanh", "relu", "gelu"])
    >>> [(freedom.sign, freedom.scale) for freedom in rescaled(spec).freedoms]
    [(False, False), (True, False), (False, True), (False, False), (False, False)]
    """
    kinds: dict[str, RescalingKind] = {r.name: r.kind for r in spec.rescalings}
    ties = _ties(spec)
    evidence = _evidence(spec, ties)
    freedoms, leftover = [], set[str]()
    for place, node_set in enumerate(spec.node_sets):
        found = evidence.get(ties[place], set())
        names: Names = next(iter(found)) if len(found) == 1 else frozenset()
        if len(found) > 1:
            leftover |= frozenset().union(*found)
        channels: list[bool] = []
        for piece in node_set.pieces:
            own = frozenset(weighing.rescaling for weighing in piece.weighings)
            channels += [bool(own) and own == names] * piece.features
            leftover |= set() if own == names else own
        allowed = {kinds[name] for name in names}
        freedoms.append(Freedom("sign" in allowed, "scale" in allowed, tuple(channels)))
    return Rescaled(tuple(freedoms), frozenset(leftover))


def _ties(spec: GraphSpec) -> list[int]:
    """For each node set the first of those that identity connections tie it to."""
    places = {node_set.name: place for place, node_set in enumerate(spec.node_sets)}
    ties = list(range(len(places)))
    for block in spec.blocks:
        if not block.pieces:
            one, two = ties[places[block.source]], ties[places[block.target]]
            ties = [min(one, two) if tie in {one, two} else tie for tie in ties]
    return ties


def _evidence(spec: GraphSpec, ties: list[int]) -> Evidence:
    places = {node_set.name: place for place, node_set in enumerate(spec.node_sets)}
    evidence: Evidence = {}
    for name, found in _ends(spec):
        evidence.setdefault(ties[places[name]], set()).add(found)
    return evidence


def _ends(spec: GraphSpec) -> Iterator[tuple[str, Names]]:
    """The node set at each end of each piece, and the rescalings that act there."""
    axes = {rescaling.name: rescaling.axis for rescaling in spec.rescalings}
    for block in spec.blocks:
        for piece in block.pieces:
            ends = [(w.rescaling, _at_target(piece, w, axes[w.rescaling])) for w in piece.weighings]
            yield block.target, frozenset(name for name, target in ends if target)
            yield block.source, frozenset(name for name, target in ends if not target)


def _at_target(piece: Piece, weighing: Weighing, axis: str) -> bool:
    """Whether a rescaling acts on a piece at its target."""
    sides = [f.side for f in piece.spans[weighing.dimension].factors if f.axis == axis]
    return weighing.power > 0 if "shared" in sides else "target" in sides
