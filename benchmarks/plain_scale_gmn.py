"""ScaleGMN on dense tensors, plainly, for networks whose hidden neurons have signs."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from plain_layers import PlainReference, by_layer, weights
from weightspace.nn import Networks
from weightspace.nn.marks import marks_of
from weightspace.nn.scale_layer import Messages, ScaleLayer
from weightspace.nn.scale_nets import Invariant

States = list[Tensor]
"""One tensor for each layer."""


class PlainScaleGMN(PlainReference):
    """The model of :class:`weightspace.models.ScaleGMN` in both directions.

    States of edges are ``[batch, receivers, senders, d]`` in either direction.
    """

    def pooled(self, networks: Networks) -> Tensor:
        """Means of the invariants of input and hidden nodes, and the output nodes' states."""
        trunk = self.model.trunk
        nodes, given = (
            by_layer(networks, x) for x in trunk.nodes(networks, marks_of(networks.arrangement))
        )
        along = weights(networks)
        against = [torch.cat([w, torch.zeros_like(w)], -1).transpose(1, 2) for w in along]
        for layer in trunk.layers:
            nodes, along, against = _layer(layer, nodes, given, along, against)
        invariants = _by_sign(self.model.readout.invariant, nodes, given)
        hidden = torch.cat(invariants[1:-1], 1).mean(1)
        return torch.cat([invariants[0].mean(1), hidden, nodes[-1].flatten(1)], -1)


def _layer(
    layer: ScaleLayer, nodes: States, given: States, along: States, against: States
) -> tuple[States, States, States]:
    last = len(nodes) - 1
    none = [torch.zeros_like(x) for x in nodes]
    forwards = [none[0]], along[:]
    backwards = none[:last] + none[last:], against[:]
    for i in range(last):
        sign = i + 1 < last
        ends = nodes[i + 1], given[i + 1], nodes[i]
        received, forwards[1][i] = _messages(layer.messages[0], *ends, along[i], sign=sign)
        forwards[0].append(received)
        ends = nodes[i], given[i], nodes[i + 1]
        backwards[0][i], backwards[1][i] = _messages(
            layer.messages[1], *ends, against[i], sign=i > 0
        )
    joined = [torch.cat(x, -1) for x in zip(nodes, forwards[0], backwards[0], strict=True)]
    update = layer.update
    gates = [update.gate(x) for x in _by_sign(update.invariant, joined, given)]
    changed = [
        x + update.linear(join) * gate for x, join, gate in zip(nodes, joined, gates, strict=True)
    ]
    settled = [x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() for x in changed]
    return settled, forwards[1], backwards[1]


def _messages(
    messages: Messages, x: Tensor, given: Tensor, senders: Tensor, edges: Tensor, *, sign: bool
) -> tuple[Tensor, Tensor]:
    gate, width = messages.gate, x.shape[-1]
    product = gate.edge(edges) * gate.sender(senders).unsqueeze(1)
    square = x.square().sum(-1, keepdim=True).unsqueeze(2) + product.square().sum(-1, keepdim=True)
    argument = gate.receiver(x).unsqueeze(2) + gate.product(product)
    argument = argument * (square / width + 1).rsqrt()
    gates = gate.gates(_folded(gate.given(given).unsqueeze(2), argument, sign))
    total = (product * gates[..., :width]).sum(2) * senders.shape[1] ** -0.5
    own = messages.own(x) * gates[..., :width].mean(2)
    if not gate.writes:
        return total + own, edges
    lifted = edges if gate.lift is None else gate.lift(edges)
    return total + own, lifted * gates[..., width:]


def _by_sign(net: Invariant, states: States, given: States) -> States:
    """The invariants of all layers: all but the first and the last have signs."""
    found = []
    for i, (x, known) in enumerate(zip(states, given, strict=True)):
        argument = net.states(x * (x.square().mean(-1, keepdim=True) + 1).rsqrt())
        hidden = _folded(net.given(known), argument, 0 < i < len(states) - 1)
        found.append(F.silu(net.out(hidden)))
    return found


def _folded(known: Tensor, argument: Tensor, sign: bool) -> Tensor:
    hidden = F.silu(known + argument)
    return hidden + F.silu(known - argument) if sign else hidden
