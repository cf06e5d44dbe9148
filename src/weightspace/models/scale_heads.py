"""From states that carry neurons' factors to invariant vectors, and to changes that carry them."""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.models.requirements import Requirements
from weightspace.models.trunk import Changes, ChangesHead, Readout
from weightspace.nn.arrangement import ROLES
from weightspace.nn.marks import marks_of, weighed_channels
from weightspace.nn.networks import Networks
from weightspace.nn.scale_layer import EdgeGate
from weightspace.nn.scale_nets import Equivariant, Invariant, linear_map, mean_square


class CarryingState(Protocol):
    """Node states that carry factors, what is known of nodes otherwise, and edge states."""

    @property
    def nodes(self) -> Tensor: ...  # noqa: D102
    @property
    def given(self) -> Tensor: ...  # noqa: D102
    @property
    def edges(self) -> Tensor: ...  # noqa: D102


class ScaleReadout(Readout):
    """Means of the invariants of input and of hidden nodes beside the output nodes' states.

    Kalogeropoulos et al. 2024, section 5: factors act on hidden nodes alone, and input and output
    nodes are not exchangeable. Output states are concatenated; those of inputs, which may be
    many, go through invariants that know which input they are. An MLP follows.

    Args:
        outputs: output neurons of a network.
        width: channels of the node states.
    """

    def __init__(self, outputs: int, width: int) -> None:
        super().__init__(width)
        self.invariant = Invariant(width, width)
        sizes = (2 + outputs) * width, width, width
        self.mlp = nn.Sequential(
            nn.Linear(sizes[0], sizes[1]), nn.SiLU(), nn.Linear(sizes[1], sizes[2]), nn.SiLU()
        )

    def forward(self, networks: Networks, state: CarryingState) -> Float[Tensor, "batch width"]:
        """Pool the states."""
        arrangement = networks.arrangement
        invariants = self.invariant(marks_of(arrangement), state.nodes, state.given)
        pooled = self._means(networks, invariants)
        ends = torch.cat([end.flatten(1) for end in arrangement.by_role(state.nodes, "output")])
        result: Tensor = self.mlp(networks.in_order(torch.cat([pooled, ends], dim=1)))
        return result

    @staticmethod
    def _means(
        networks: Networks, values: Float[Tensor, "nodes d"]
    ) -> Float[Tensor, "networks two_d"]:
        """The means over the input and over the hidden nodes of each network."""
        arrangement = networks.arrangement
        roles = len(ROLES)
        places = (arrangement.networks * roles + arrangement.roles).to(values.device)
        count = arrangement.network_count * roles
        sizes = torch.bincount(places, minlength=count).clamp_min(1).to(values)
        sums = values.new_zeros(count, values.shape[1]).index_add(0, places, values)
        means = (sums / sizes[:, None]).view(arrangement.network_count, roles, -1)
        return means[:, : ROLES.index("output")].flatten(1)


class ScaleChanges(ChangesHead):
    """Changes that carry the factors of what they change.

    A neuron's bias changes by an equivariant net of its state, which carries ``q_i``; features
    that carry no factor by a net of its invariants. A weight changes by its gated edge state,
    which carries ``q_i / q_j``, and by ``(A x_i) . (B y_j)`` with ``y_j`` the sender's state made
    to carry ``1 / q_j``: itself for signs, divided by ``1 + |x_j|^2`` for scales, which is exact
    in canonical scales. The second part also changes weights that are zero.

    Args:
        requirements: the networks to be edited.
        width: channels of the node states.
        edges: channels of the edge states.
    """

    def __init__(self, requirements: Requirements, *, width: int, edges: int) -> None:
        super().__init__()
        self.requirements = requirements
        self.channels = max(requirements.node_features, 1)
        self.weighed = Equivariant(width, self.channels, width=width)
        self.plain = Invariant(width, width)
        self.plain_out = nn.Linear(width, self.channels)
        self.gate = EdgeGate(edges, width, direction=0, message=False, edge=True)
        self.edge = linear_map(width, requirements.edge_features)
        self.target, self.source = linear_map(width, width), linear_map(width, width)
        self.pair = nn.Parameter(torch.randn(requirements.edge_features, width) / width)

    def forward(self, networks: Networks, state: CarryingState) -> Changes:
        """Compute the changes."""
        return Changes(self._nodes(networks, state), self._edges(networks, state))

    def _nodes(self, networks: Networks, state: CarryingState) -> Float[Tensor, "nodes channels"]:
        arrangement = networks.arrangement
        marks = marks_of(arrangement)
        weighed = weighed_channels(arrangement, self.channels).to(state.nodes)
        plain = self.plain_out(self.plain(marks, state.nodes, state.given))
        carried = self.weighed(marks, state.nodes, state.given)
        changes: Tensor = weighed * carried + (1 - weighed) * plain
        return changes

    def _edges(self, networks: Networks, state: CarryingState) -> list[Tensor]:
        arrangement = networks.arrangement
        marks = marks_of(arrangement)
        gated = self.gate(arrangement, marks, state.nodes, state.given, state.edges).edges
        scale = marks.scale.to(state.nodes)
        sender = state.nodes / (1 + scale * mean_square(state.nodes))
        targets = arrangement.at_targets(self.target(state.nodes))
        sources = arrangement.at_sources(self.source(sender))
        changes = []
        for run, edges, target, source in zip(
            arrangement.runs, arrangement.views(gated), targets, sources, strict=True
        ):
            chosen = torch.tensor(self.requirements.edge_channels(run.layout), device=gated.device)
            own = F.linear(edges, self.edge.weight[chosen])
            changes.append((own + _pairs(target, source, self.pair[chosen])).flatten(0, 2))
        return changes


def _pairs(
    target: Float[Tensor, "lead targets 1 d"],
    source: Float[Tensor, "lead 1 sources d"],
    weights: Float[Tensor, "channels d"],
) -> Float[Tensor, "lead targets sources channels"]:
    """``sum_d target_d weight_d source_d`` for every channel: one matrix product a block."""
    lead, targets, _, width = target.shape
    channels = len(weights)
    rows = (target * weights).view(lead, targets * channels, width)
    products = rows @ source.squeeze(1).transpose(1, 2)
    return products.view(lead, targets, channels, -1).transpose(2, 3)
