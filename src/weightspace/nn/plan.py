"""A spec's shape as metanetwork layers see it: places, blocks, degrees."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.graph import BlockShape, GraphSpec

Edges = list[tuple[Tensor, Tensor]]
"""Edge states: for each block ``[batch, groups, targets, sources, d]``, along the connections
and against them."""


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

    def spread(self, x: Float[Tensor, "batch neurons d"], groups: int) -> Tensor:
        """Reshape node states to ``[batch, groups, neurons of a group, d]``."""
        batch, width = x.shape[0], x.shape[-1]
        if self.order != tuple(range(len(self.order))):
            grid = x.reshape(batch, *self.sizes, width)
            x = grid.permute(0, *(place + 1 for place in self.order), grid.ndim - 1)
        return x.reshape(batch, groups, -1, width)

    def gather(self, y: Float[Tensor, "batch groups part d"]) -> Float[Tensor, "batch neurons d"]:
        """Undo :meth:`spread`."""
        batch, width = y.shape[0], y.shape[-1]
        if self.order != tuple(range(len(self.order))):
            grid = y.reshape(batch, *(self.sizes[place] for place in self.order), width)
            inverse = sorted(range(len(self.order)), key=self.order.__getitem__)
            y = grid.permute(0, *(place + 1 for place in inverse), grid.ndim - 1)
        return y.reshape(batch, -1, width)


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

    def split(self, nodes: Float[Tensor, "batch neurons d"]) -> tuple[Tensor, ...]:
        """Cut the states of all nodes into those of each node set."""
        return torch.split(nodes, list(self.sizes), dim=1)

    def degree_column(self, like: Tensor) -> Float[Tensor, "neurons 1"]:
        """The degree of every neuron, of a tensor's type and place."""
        degrees, sizes = torch.tensor(self.degrees), torch.tensor(self.sizes)
        return degrees.repeat_interleave(sizes).unsqueeze(1).to(like)


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
