"""Which layers of a batch's networks share a neural functional's weights."""

from __future__ import annotations

from dataclasses import dataclass

from weightspace.graph import GraphSpec
from weightspace.nn.arrangement import Arrangement, Member
from weightspace.nn.plan import plan_of

IN, OWN, OUT = range(3)
"""What lies on a node set: its incoming weights, its biases, its outgoing weights."""


@dataclass(frozen=True)
class Slots:
    """Identities of node sets and blocks.

    Networks of one architecture have an identity for each layer. Those of several share by
    depth: a hidden layer is known by how many come before it, the output layer as the last.

    Args:
        spec: the one architecture, or None.
        hidden: the most hidden node sets.
        node_features: the most feature channels of a node.
    """

    spec: GraphSpec | None
    hidden: int
    node_features: int

    @property
    def nodes(self) -> int:
        """How many identities node sets have."""
        return self.hidden + 2 if self.spec is None else len(self.spec.node_sets)

    @property
    def blocks(self) -> int:
        """How many identities blocks have."""
        return self.hidden + 1 if self.spec is None else len(self.spec.blocks)

    def node(self, spec: GraphSpec, place: int) -> int:
        """The identity of a node set."""
        if self.spec is not None:
            return place
        node_set = spec.node_sets[place]
        if node_set.role != "hidden":
            return int(node_set.role == "output")
        return 2 + sum(other.role == "hidden" for other in spec.node_sets[:place])

    def block(self, spec: GraphSpec, place: int) -> int:
        """The identity of a block: that of its targets, unless it has its own."""
        if self.spec is not None:
            return place
        return max(self.node(spec, plan_of(spec).blocks[place].target.place) - 1, 0)

    def ports(self, identity: int) -> tuple[int, ...]:
        """What lies on the node sets of an identity, of :data:`IN`, :data:`OWN`, :data:`OUT`."""
        if self.spec is None:
            return (IN, OWN, OUT) if self.node_features else (IN, OUT)
        blocks = plan_of(self.spec).blocks
        found = (
            any(block.target.place == identity for block in blocks),
            bool(self.spec.node_sets[identity].pieces),
            any(block.source.place == identity for block in blocks),
        )
        return tuple(port for port in (IN, OWN, OUT) if found[port])

    def biased(self) -> tuple[int, ...]:
        """The identities of node sets that may have features."""
        return tuple(i for i in range(self.nodes) if OWN in self.ports(i))


@dataclass(frozen=True)
class Segment:
    """Blocks of one identity that lie next to each other in a run.

    Args:
        run: the run's place in the arrangement.
        lead: their range in it.
        identity: of the blocks.
        members: the blocks.
        groups: of each.
    """

    run: int
    lead: slice
    identity: int
    members: tuple[Member, ...]
    groups: tuple[int, ...]


def segments(arrangement: Arrangement, slots: Slots) -> list[Segment]:
    """Cut the runs of a batch into blocks of one identity, in the order of the edges."""
    found: list[Segment] = []
    for place, run in enumerate(arrangement.runs):
        start = 0
        for member in run.members:
            spec = arrangement.specs[member.part]
            groups = spec.shape_of(spec.blocks[member.block]).groups
            identity = slots.block(spec, member.block)
            stop = start + member.count * groups
            last = found[-1] if found else None
            if last is not None and (last.run, last.identity) == (place, identity):
                found[-1] = Segment(
                    place,
                    slice(last.lead.start, stop),
                    identity,
                    (*last.members, member),
                    (*last.groups, groups),
                )
            else:
                found.append(Segment(place, slice(start, stop), identity, (member,), (groups,)))
            start = stop
    return found
