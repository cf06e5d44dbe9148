"""A spec's shape as metanetwork layers see it: places, blocks, degrees."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from weightspace.graph import BlockShape, GraphSpec


@dataclass(frozen=True)
class End:
    """One end of a block: how a node set's neurons fall into the block's groups.

    Args:
        place: the node set's index in the spec.
        sizes: the sizes of the node set's axes.
        order: the axes' order that puts the shared ones first.
    """

    place: int
    sizes: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def plain(self) -> bool:
        """Whether the neurons already lie in the block's order."""
        return self.order == tuple(range(len(self.order)))


@dataclass(frozen=True)
class BlockPlan:
    """One block: its two ends and its sizes."""

    source: End
    target: End
    shape: BlockShape


@dataclass(frozen=True)
class Plan:
    """What a layer needs to know of a spec.

    Args:
        sizes: the number of neurons of each node set.
        blocks: the blocks in order.
        degrees: for each node set, how many connections each of its neurons has, both
            directions counted. All neurons of a node set have the same.
    """

    sizes: tuple[int, ...]
    blocks: tuple[BlockPlan, ...]
    degrees: tuple[int, ...]


@lru_cache(maxsize=256)
def plan_of(spec: GraphSpec) -> Plan:
    """Derive the plan of a spec; kept, since every batch asks for it.

    >>> from weightspace.graph import chain_spec
    >>> plan_of(chain_spec([2, 4, 1])).degrees
    (4, 3, 4)
    """
    places = {node_set.name: place for place, node_set in enumerate(spec.node_sets)}
    degrees = [0] * len(places)
    blocks = []
    for block in spec.blocks:
        shape = spec.shape_of(block)
        ends = [
            _end(spec, name, places[name], block.shared) for name in (block.source, block.target)
        ]
        degrees[ends[0].place] += shape.targets
        degrees[ends[1].place] += shape.sources
        blocks.append(BlockPlan(ends[0], ends[1], shape))
    sizes = tuple(spec.nodes_in(name) for name in places)
    return Plan(sizes, tuple(blocks), tuple(degrees))


def _end(spec: GraphSpec, name: str, place: int, shared: tuple[str, ...]) -> End:
    axes = spec.node_set(name).axes
    ordered = [*shared, *(axis for axis in axes if axis not in shared)]
    return End(
        place,
        tuple(spec.axis(axis).size for axis in axes),
        tuple(axes.index(axis) for axis in ordered),
    )
