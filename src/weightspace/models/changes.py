"""From node and edge states to a change of every parameter."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.errors import ModelError
from weightspace.models.requirements import Requirements
from weightspace.models.trunk import Changes, ChangesHead
from weightspace.nn.deferred_film import DeferredEdges
from weightspace.nn.edge_maps import DirectedMap
from weightspace.nn.networks import Networks


class GraphState(NamedTuple):
    """What message passing makes of a batch.

    Args:
        nodes: the states of all nodes.
        edges: the states of all edges, along and against, before the map ``written``; stored
            wherever networks are edited.
        written: the linear map that the edges' last writer left to its readers.
    """

    nodes: Float[Tensor, "nodes d"]
    edges: Float[Tensor, "two edges d"] | DeferredEdges
    written: DirectedMap


class GraphChanges(ChangesHead):
    """An MLP on each node, and one on each edge with both its ends.

    Kofinas et al. 2024, appendix on style editing: one value for each node's bias and each
    edge's weight. An edge is read along and against, and with its ends' last states.

    Args:
        requirements: the networks to be edited.
        nodes: channels of the node states.
        edges: channels of the edge states.
    """

    def __init__(self, requirements: Requirements, *, nodes: int, edges: int) -> None:
        super().__init__()
        self.requirements = requirements
        self.node = nn.Sequential(
            nn.Linear(nodes, nodes), nn.SiLU(), nn.Linear(nodes, max(requirements.node_features, 1))
        )
        self.along, self.against = (nn.Linear(edges, edges) for _ in range(2))
        self.target, self.source = (nn.Linear(nodes, edges, bias=False) for _ in range(2))
        self.edge = nn.Linear(edges, requirements.edge_features)

    def forward(self, networks: Networks, state: GraphState) -> Changes:
        """Compute the changes."""
        arrangement = networks.arrangement
        targets = arrangement.at_targets(self.target(state.nodes))
        sources = arrangement.at_sources(self.source(state.nodes))
        written = state.written.weight
        if not isinstance(state.edges, Tensor):
            raise ModelError(
                "executor",
                expected="'stored' edge states for an edit",
                found="'deferred'",
                hint="Edit networks of this size with ng-gnn-linear.",
            )
        weight = torch.cat([self.along.weight @ written[0], self.against.weight @ written[1]], 1)
        bias = self.along(state.written.bias[0]) + self.against(state.written.bias[1])
        both = F.linear(torch.cat(list(state.edges), dim=-1), weight, bias)
        changes = []
        for run, edges, target, source in zip(
            arrangement.runs, arrangement.views(both), targets, sources, strict=True
        ):
            hidden = F.silu(edges + target + source).flatten(0, 2)
            chosen = torch.tensor(self.requirements.edge_channels(run.layout), device=hidden.device)
            last = self.edge
            changes.append(F.linear(hidden, last.weight[chosen], last.bias[chosen]))
        return Changes(self.node(state.nodes), changes)
