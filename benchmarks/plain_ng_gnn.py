"""NG-GNN on dense tensors, plainly."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from plain_layers import PlainReference, by_layer, fourier, on_both, weights
from weightspace.nn import EdgeUpdate, Networks, PNALayer

Edges = list[tuple[Tensor, Tensor]]
"""For each layer of weights ``[batch, targets, sources, d]``, along and against."""


class PlainNGGNN(PlainReference):
    """The model of :class:`weightspace.models.NGGNN`."""

    def pooled(self, networks: Networks) -> Tensor:
        """The states of the output nodes."""
        trunk = self.model.trunk
        nodes = by_layer(networks, trunk.nodes(networks))
        edges = self._first_edges(networks)
        for layer in trunk.layers:
            nodes = _messages(layer.messages, nodes, edges)
            edges = _updated(layer.update, nodes, edges)
            nodes = [F.dropout(F.silu(layer.norm(x)), layer.dropout, self.training) for x in nodes]
        return _messages(trunk.last, nodes, edges)[-1].flatten(1)

    def spared(self, networks: Networks) -> float:
        """The maps that edges end with could be joined with those that read them."""
        trunk = self.model.trunk
        maps = [trunk.edges.directions, *(layer.update.out for layer in trunk.layers)]
        return 2 * networks.arrangement.edge_count * sum(m.weight.numel() for m in maps)

    def _first_edges(self, networks: Networks) -> Edges:
        encoder = self.model.trunk.edges
        states = [encoder.value.linear(fourier(encoder.value, w)) for w in weights(networks)]
        both = [
            (torch.cat([e, torch.zeros_like(e), e], -1), torch.cat([torch.zeros_like(e), e, e], -1))
            for e in states
        ]
        return on_both(encoder.directions, both)


def _messages(layer: PNALayer, nodes: list[Tensor], edges: Edges) -> list[Tensor]:
    receive, send = layer.message.weight.chunk(2, dim=1)
    receivers = [F.linear(x, receive, layer.message.bias) for x in nodes]
    senders = [F.linear(x, send) for x in nodes]
    received: list[list[Tensor]] = [[] for _ in nodes]
    for i, (along, against) in enumerate(edges):
        scale, shift = layer.film(along).chunk(2, dim=-1)
        pair = receivers[i + 1].unsqueeze(2) + senders[i].unsqueeze(1)
        received[i + 1].append(scale * pair + shift)
        scale, shift = layer.film(against).chunk(2, dim=-1)
        pair = receivers[i].unsqueeze(1) + senders[i + 1].unsqueeze(2)
        received[i].append((scale * pair + shift).transpose(1, 2))
    return [_received(layer, x, torch.cat(m, 2)) for x, m in zip(nodes, received, strict=True)]


def _received(layer: PNALayer, x: Tensor, messages: Tensor) -> Tensor:
    mean = messages.mean(2)
    variance = (messages.square().mean(2) - mean.square()).clamp_min(0.0)
    found = torch.cat([mean, messages.amin(2), messages.amax(2), (variance + 1e-5).sqrt()], -1)
    amplified = found * (math.log(messages.shape[2] + 1) / layer.delta)
    result: Tensor = layer.out(layer.post(torch.cat([x, found, amplified], -1)))
    return result


def _updated(update: EdgeUpdate, nodes: list[Tensor], edges: Edges) -> Edges:
    receivers = [update.receiver(x) for x in nodes]
    senders = [update.sender(x) for x in nodes]
    lifted = on_both(update.edge, edges)
    ends = [
        (
            receivers[i + 1].unsqueeze(2) + senders[i].unsqueeze(1),
            receivers[i].unsqueeze(1) + senders[i + 1].unsqueeze(2),
        )
        for i in range(len(edges))
    ]
    sums = [(a + c, b + d) for (a, b), (c, d) in zip(lifted, ends, strict=True)]
    return on_both(lambda x: update.out(F.silu(x)), sums)
