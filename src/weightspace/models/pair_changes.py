"""From the states of nodes and pairs to a change of every parameter."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.models.changes import GraphChanges, GraphState
from weightspace.models.requirements import Requirements
from weightspace.models.trunk import Changes, ChangesHead
from weightspace.nn.edge_maps import DirectedMap
from weightspace.nn.networks import Networks
from weightspace.nn.pair_layout import PairLayout
from weightspace.nn.pair_update import PairUpdate


class PairState(NamedTuple):
    """What a relational transformer makes of a batch.

    Args:
        layout: the pairs.
        nodes: the states of all nodes.
        pairs: the states of all pairs that the last layer read.
    """

    layout: PairLayout
    nodes: Float[Tensor, "nodes n"]
    pairs: Float[Tensor, "pairs d"]


class PairChanges(ChangesHead):
    """The last layer's update of the pairs, then an MLP on each node and connection.

    Kofinas et al. 2024: classification leaves the last layer's update of edges out, editing
    needs it. A connection is read with its pair's state and that of the reverse pair.

    Args:
        requirements: the networks to be edited.
        nodes: channels of the node states.
        pairs: channels of the pair states.
        update: the last layer's update of the pairs.
    """

    def __init__(
        self, requirements: Requirements, *, nodes: int, pairs: int, update: PairUpdate
    ) -> None:
        super().__init__()
        self.update = update
        self.changes = GraphChanges(requirements, nodes=nodes, edges=pairs)

    def forward(self, networks: Networks, state: PairState) -> Changes:
        """Compute the changes."""
        layout, nodes = state.layout, state.nodes
        pairs = self.update(layout, nodes, state.pairs)
        along = (
            pairs[layout.along]
            if isinstance(layout.along, slice)
            else pairs.index_select(0, layout.along.to(pairs.device))
        )
        against = pairs.index_select(0, layout.against.to(pairs.device))
        eye = torch.eye(pairs.shape[1], dtype=pairs.dtype, device=pairs.device)
        unchanged = DirectedMap(eye.expand(2, -1, -1), pairs.new_zeros(2, len(eye)))
        edges = torch.stack([along, against])
        result: Changes = self.changes(networks, GraphState(nodes, edges, unchanged))
        return result
