"""The relational transformers on dense tensors, plainly."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from plain_layers import PlainReference, by_layer, fourier, weights
from weightspace.nn import Networks
from weightspace.nn.pair_update import PairUpdate
from weightspace.nn.relational_layer import RelationalNodes


class PlainNGT(PlainReference):
    """The model of :class:`weightspace.models.NGT`: all neurons are one group of receivers."""

    def pooled(self, networks: Networks) -> Tensor:
        """The states of the output nodes."""
        trunk = self.model.trunk
        nodes = self.grouped(by_layer(networks, trunk.nodes(networks)))
        pairs = self.first_pairs(networks)
        for layer in trunk.layers:
            nodes = self._attended(layer.nodes, nodes, pairs)
            pairs = self._updated(layer.pairs, nodes, pairs)
        outputs = self.model.trunk.requirements.outputs
        return self._attended(trunk.last, nodes, pairs)[-1][:, -outputs:].flatten(1)

    def spared(self, networks: Networks) -> float:
        """Pairs could be summed with their shares before they are mapped to parts of values."""
        attention = self.model.trunk.last.attention
        size, width = attention.pair_value.weight.shape
        pairs = self.model.trunk.layout(networks.arrangement).pair_count
        return len([*self.model.trunk.layers, 0]) * pairs * width * (size - attention.heads)

    def grouped(self, nodes: list[Tensor]) -> list[Tensor]:
        """Nodes by groups of receivers that have as many senders."""
        return [torch.cat(nodes, 1)]

    def senders(self, values: list[Tensor], group: int) -> Tensor:
        """The senders of a group, ``[batch, receivers or 1, senders, d]``."""
        return values[group].unsqueeze(1)

    def first_pairs(self, networks: Networks) -> list[Tensor]:
        """The first states of pairs, ``[batch, receivers, senders, d]`` for each group."""
        value, count = self.model.trunk.pairs.value, networks.arrangement.specs[0].node_count
        pairs = value.linear.bias.repeat(len(networks), count, count, 1)
        source = 0
        for layer in weights(networks):
            _, targets, sources, _ = layer.shape
            target = source + sources
            at = slice(target, target + targets), slice(source, source + sources)
            pairs[:, at[0], at[1]] = value.linear(fourier(value, layer))
            source = target
        return [pairs]

    def reversed(self, pairs: list[Tensor]) -> list[Tensor]:
        """The states of the pairs seen from their senders."""
        return [pairs[0].transpose(1, 2)]

    def _attended(
        self, layer: RelationalNodes, nodes: list[Tensor], pairs: list[Tensor]
    ) -> list[Tensor]:
        attention, found = layer.attention, []
        keys, values = ([f(x) for x in nodes] for f in (attention.key, attention.value))
        for group, (x, e) in enumerate(zip(nodes, pairs, strict=True)):
            q = attention.query(x).unsqueeze(2) + attention.pair_query(e)
            k = self.senders(keys, group) + attention.pair_key(e)
            v = self.senders(values, group) * attention.pair_factor(e) + attention.pair_value(e)
            q, k, v = (t.unflatten(-1, (attention.heads, -1)) for t in (q, k, v))
            logits = (q * k).sum(-1) / math.sqrt(attention.query.out_features)
            mixed = (torch.softmax(logits, 2).unsqueeze(-1) * v).sum(2).flatten(2)
            between = layer.norm(x + self._dropped(attention.out(mixed), layer.dropout))
            change = layer.second(F.gelu(layer.first(between)))
            found.append(layer.last_norm(between + self._dropped(change, layer.dropout)))
        return found

    def _updated(
        self, update: PairUpdate, nodes: list[Tensor], pairs: list[Tensor]
    ) -> list[Tensor]:
        found, sent = [], [update.sender(x) for x in nodes]
        for group, (e, reverse) in enumerate(zip(pairs, self.reversed(pairs), strict=True)):
            lifted = update.pair(torch.cat([e, reverse], -1))
            ends = update.receiver(nodes[group]).unsqueeze(2) + self.senders(sent, group)
            change = update.out(F.gelu(lifted + ends))
            between = update.norm(e + self._dropped(change, update.dropout))
            change = update.second(F.gelu(update.first(between)))
            found.append(update.last_norm(between + self._dropped(change, update.dropout)))
        return found

    def _dropped(self, values: Tensor, rate: float) -> Tensor:
        return F.dropout(values, rate, self.training)


class PlainNGTEdges(PlainNGT):
    """The model of :class:`weightspace.models.NGTEdges`: each layer is a group.

    Its senders are the layer before, the layer after, the neuron itself and its layer's mean.
    """

    def grouped(self, nodes: list[Tensor]) -> list[Tensor]:
        """One group for each layer."""
        return nodes

    def senders(self, values: list[Tensor], group: int) -> Tensor:
        """The senders of a layer."""
        own = values[group]
        parts = [values[i].unsqueeze(1) for i in (group - 1, group + 1) if 0 <= i < len(values)]
        parts.append(own.mean(1, keepdim=True).unsqueeze(1))
        shared = [part.expand(-1, own.shape[1], -1, -1) for part in parts]
        return torch.cat([*shared[:-1], own.unsqueeze(2), shared[-1]], 2)

    def first_pairs(self, networks: Networks) -> list[Tensor]:
        """Weights from the layer before; all else has no features."""
        value, sizes = self.model.trunk.pairs.value, networks.arrangement.specs[0].node_sets
        counts = [networks.arrangement.specs[0].nodes_in(node_set.name) for node_set in sizes]
        known = [value.linear(fourier(value, layer)) for layer in weights(networks)]
        pairs = []
        for i, count in enumerate(counts):
            rest = sum(counts[i + 1 : i + 2]) + 2
            empty = value.linear.bias.expand(len(networks), count, rest, -1)
            pairs.append(torch.cat([*known[max(i - 1, 0) : i], empty], 2))
        return pairs

    def reversed(self, pairs: list[Tensor]) -> list[Tensor]:
        """A connection's other direction; pairs with oneself and with the mean are their own."""
        last = len(pairs) - 1
        counts = [e.shape[1] for e in pairs]
        parts = [
            e.split([*counts[max(i - 1, 0) : i], *counts[i + 1 : i + 2], 2], 2)
            for i, e in enumerate(pairs)
        ]
        found = []
        for i in range(len(pairs)):
            before = [parts[i - 1][-2].transpose(1, 2)] if i > 0 else []
            after = [parts[i + 1][0].transpose(1, 2)] if i < last else []
            found.append(torch.cat([*before, *after, parts[i][-1]], 2))
        return found
