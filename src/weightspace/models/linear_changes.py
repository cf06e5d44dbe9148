"""From node states alone to a change of every parameter, at a few operations an edge."""

from __future__ import annotations

from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.models.requirements import Requirements
from weightspace.models.trunk import Changes, ChangesHead
from weightspace.nn.arrangement import Run
from weightspace.nn.lifts import Lifting
from weightspace.nn.linear_messages import LiftedEdges
from weightspace.nn.networks import Networks

RANK = 8
"""Channels of the product of both ends' states, for each feature channel of an edge."""


class LinearStateLike(Protocol):
    """A state of node states and of edges as they are read."""

    @property
    def nodes(self) -> Tensor: ...  # noqa: D102
    @property
    def edges(self) -> LiftedEdges: ...  # noqa: D102


class LinearChanges(ChangesHead):
    """An MLP on each node; on each edge a form that needs no states of edges.

    Every feature channel ``c`` of an edge changes by
    ``<U_c x_i, V_c x_j> + sum_f lift_f(w_c) (a_cf x_i + b_cf x_j + k_cf)``: one matrix product and
    a few elementwise ones, so that networks of any size can be edited.

    Args:
        requirements: the networks to be edited.
        nodes: channels of the node states.
        lifting: the lifts of each feature channel.
    """

    def __init__(self, requirements: Requirements, *, nodes: int, lifting: Lifting) -> None:
        super().__init__()
        self.requirements, self.lifting = requirements, lifting
        self.node = nn.Sequential(
            nn.Linear(nodes, nodes), nn.SiLU(), nn.Linear(nodes, max(requirements.node_features, 1))
        )
        each = RANK + lifting.count
        self.target = nn.Linear(nodes, requirements.edge_features * each)
        self.source = nn.Linear(nodes, requirements.edge_features * each, bias=False)

    def forward(self, networks: Networks, state: LinearStateLike) -> Changes:
        """Compute the changes."""
        arrangement = networks.arrangement
        changes = []
        for run, blocks, target, source in zip(
            arrangement.runs,
            state.edges.blocks,
            arrangement.at_targets(state.nodes),
            arrangement.at_sources(state.nodes),
            strict=True,
        ):
            values = torch.cat([block.normal for block in blocks])
            changes.append(self._changes(run, values, target.squeeze(2), source.squeeze(1)))
        return Changes(self.node(state.nodes), changes)

    def _changes(
        self, run: Run, values: Tensor, target: Tensor, source: Tensor
    ) -> Float[Tensor, "edges features"]:
        found = []
        each = RANK + self.lifting.count
        for place, channel in enumerate(self.requirements.edge_channels(run.layout)):
            rows = slice(channel * each, (channel + 1) * each)
            at_target = target @ self.target.weight[rows].T + self.target.bias[rows]
            at_source = source @ self.source.weight[rows].T
            change = at_target[..., :RANK] @ at_source[..., :RANK].transpose(1, 2)
            lifted = self.lifting(values[..., place : place + 1])
            for lift in range(self.lifting.count):
                ends = at_target[..., RANK + lift, None] + at_source[..., None, :, RANK + lift]
                change = torch.addcmul(change, lifted[..., lift], ends)
            found.append(change.flatten())
        return torch.stack(found, dim=-1)
