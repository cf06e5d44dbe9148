"""The ScaleGMN layer: messages along and against, then nodes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.nn.arrangement import Arrangement
from weightspace.nn.gated_message import Gated, gated_messages
from weightspace.nn.gated_run import AtNodes, Weights
from weightspace.nn.marks import Marks, senders_of
from weightspace.nn.scale_nets import Equivariant, gate_map, linear_map, settled


class EdgeGate(nn.Module):
    """The products of edges with their senders, and gates made of their invariants.

    See :func:`weightspace.nn.gated_message.gated_messages` for the formulas.

    Args:
        inputs: channels of the edges' states.
        width: channels of the nodes' states, and of the edges' new ones.
        direction: 0 for messages from sources to targets, 1 against.
        message: whether messages are wanted.
        edge: whether new edge states are wanted.
    """

    def __init__(
        self, inputs: int, width: int, *, direction: int, message: bool, edge: bool
    ) -> None:
        super().__init__()
        self.direction, self.message, self.writes = direction, message, edge
        self.edge, self.product = linear_map(inputs, width), linear_map(width, width)
        self.sender, self.receiver = linear_map(width, width), linear_map(width, width)
        self.given = nn.Linear(width, width)
        self.gates = gate_map(width, (message + edge) * width)
        self.lift = linear_map(inputs, width) if edge and inputs != width else None

    def forward(
        self,
        arrangement: Arrangement,
        marks: Marks,
        nodes: Float[Tensor, "nodes d"],
        given: Float[Tensor, "nodes d"],
        edges: Float[Tensor, "edges in"],
    ) -> Gated:
        """Compute messages, edge states, or both.

        Args:
            arrangement: of the batch.
            marks: which nodes signs and scales act on.
            nodes: their states, which carry their factors.
            given: what is known of them otherwise.
            edges: their states.
        """
        at_nodes = AtNodes(
            self.sender(nodes),
            self.receiver(nodes),
            self.given(given),
            nodes.square().sum(-1, keepdim=True),
        )
        lift = self.edge.weight.new_empty(0) if self.lift is None else self.lift.weight
        weights = Weights(
            self.edge.weight, self.product.weight, self.gates.weight, self.gates.bias, lift
        )
        return gated_messages(
            arrangement,
            marks,
            self.direction,
            edges,
            at_nodes,
            weights,
            message=self.message,
            edge=self.writes,
        )


class Messages(nn.Module):
    """The messages of one direction, and the edges' new states.

    Kalogeropoulos et al. 2024: a message is an equivariant net of ``[x_i, z_ij]`` with
    ``z_ij`` the product of edge and sender, and messages are summed. With ``g_ij`` the gate,
    ``m_ij = A x_i * g_ij + z_ij * g_ij``; the first part's sum is ``A x_i`` times that of the
    gates, and nothing of it needs to be computed for single edges. Since node states differ in
    the number of their senders ``n``, the first sum is divided by ``n`` and the second by its root.

    Args:
        inputs: channels of the edges' states.
        width: channels of the nodes' states.
        direction: 0 for messages from sources to targets, 1 against.
        edges: whether new edge states are wanted.
    """

    def __init__(self, inputs: int, width: int, *, direction: int, edges: bool) -> None:
        super().__init__()
        self.gate = EdgeGate(inputs, width, direction=direction, message=True, edge=edges)
        self.own = linear_map(width, width)

    def forward(
        self,
        arrangement: Arrangement,
        marks: Marks,
        nodes: Float[Tensor, "nodes d"],
        given: Float[Tensor, "nodes d"],
        edges: Float[Tensor, "edges in"],
    ) -> tuple[Float[Tensor, "nodes d"], Float[Tensor, "edges d"]]:
        """Compute the sum of messages at each node, and the new edge states (or the old)."""
        found = self.gate(arrangement, marks, nodes, given, edges)
        count = senders_of(arrangement, self.gate.direction).to(nodes)
        width, some = nodes.shape[-1], count.clamp_min(1)
        gates = self.gate.gates
        mean = F.linear(
            arrangement.merge(found.invariants) / some, gates.weight[:width], gates.bias[:width]
        )
        total = arrangement.merge(found.total) * some.rsqrt()
        received = total + self.own(nodes) * mean * (count > 0)
        return received, found.edges if self.gate.writes else edges


class ScaleLayer(nn.Module):
    """One layer: messages in every direction, then ``x_i' = x_i + equivariant([x_i, messages])``.

    States are divided by their root mean square where no scale acts.

    Args:
        inputs: channels of the edges' states in each direction.
        width: channels of the nodes' states.
        edges: whether new edge states are wanted.
        dropout: rate of invariants.
    """

    def __init__(self, inputs: tuple[int, ...], width: int, *, edges: bool, dropout: float) -> None:
        super().__init__()
        self.messages = nn.ModuleList(
            Messages(size, width, direction=direction, edges=edges)
            for direction, size in enumerate(inputs)
        )
        self.update = Equivariant((1 + len(inputs)) * width, width, width=width, dropout=dropout)

    def forward(
        self,
        arrangement: Arrangement,
        marks: Marks,
        nodes: Float[Tensor, "nodes d"],
        given: Float[Tensor, "nodes d"],
        edges: tuple[Tensor, ...],
    ) -> tuple[Float[Tensor, "nodes d"], tuple[Tensor, ...]]:
        """Update nodes and edges.

        Args:
            arrangement: of the batch.
            marks: which nodes signs and scales act on.
            nodes: their states, which carry their factors.
            given: what is known of them otherwise.
            edges: the edges' states in each direction.
        """
        found = [
            messages(arrangement, marks, nodes, given, states)
            for messages, states in zip(self.messages, edges, strict=True)
        ]
        joined = torch.cat([nodes, *(received for received, _ in found)], dim=-1)
        nodes = settled(marks, nodes + self.update(marks, joined, given))
        return nodes, tuple(states for _, states in found)
