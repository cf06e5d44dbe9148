"""The relational transformer once more, pair by pair, with none of the package's block code."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weightspace.graph import NeuralGraph, activation_identities, position_identities
from weightspace.graph.interop import block_edges, node_offsets
from weightspace.models import Predictor
from weightspace.nn import feature_layout


@dataclass
class Pairs:
    """Who looks at whom in one network.

    ``sender`` counts nodes, then node sets; ``features`` are None without a connection.
    """

    receiver: list[int]
    sender: list[int]
    reverse: list[int]
    features: list[list[Tensor]]


def every_pair(graph: NeuralGraph, channels: object) -> Pairs:
    """All pairs of nodes."""
    count = graph.spec.node_count
    both = [(i, j) for i in range(count) for j in range(count)]
    features: list[list[Tensor]] = [[] for _ in both]
    for source, target, values in connections(graph, channels):
        features[target * count + source].append(values)
    return Pairs(
        [i for i, _ in both],
        [j for _, j in both],
        [j * count + i for i, j in both],
        features,
    )


def neighbours(graph: NeuralGraph, channels: object) -> Pairs:
    """Both directions of all connections, every node with itself and its node set."""
    pairs = Pairs([], [], [], [])

    def add(receiver: int, sender: int, reverse: int, features: list[Tensor]) -> None:
        pairs.receiver.append(receiver)
        pairs.sender.append(sender)
        pairs.reverse.append(reverse)
        pairs.features.append(features)

    for source, target, values in connections(graph, channels):
        row = len(pairs.receiver)
        add(target, source, row + 1, [values])
        add(source, target, row, [])
    count = graph.spec.node_count
    for place, node_set in enumerate(graph.spec.node_sets):
        start = node_offsets(graph.spec)[node_set.name]
        for node in range(start, start + graph.spec.nodes_in(node_set.name)):
            add(node, node, len(pairs.receiver), [])
            add(node, count + place, len(pairs.receiver), [])
    return pairs


def connections(graph: NeuralGraph, channels):  # type: ignore[no-untyped-def]
    """Source, target and features, in the common layout, of every connection."""
    for block in graph.spec.blocks:
        sources, targets = block_edges(graph.spec, block).tolist()
        rows = graph.edges[block.name][0].flatten(0, 2)
        places = channels.edge_channels(feature_layout(graph.spec, block))
        for source, target, row in zip(sources, targets, rows, strict=True):
            values = torch.zeros(channels.edge_features, dtype=row.dtype)
            values[places] = row
            yield source, target, values


def fourier(layer: nn.Module, values: Tensor) -> Tensor:
    angles = values @ layer.frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


def oracle(model: Predictor, graph: NeuralGraph, pairs_of: object) -> Tensor:
    """What the model should output in evaluation mode, one network at a time."""
    return torch.stack([_one(model, graph[[i]], pairs_of) for i in range(graph.batch_size)])


def _one(model: Predictor, raw: NeuralGraph, pairs_of) -> Tensor:  # type: ignore[no-untyped-def]
    graph = model.normaliser.normalisation(raw)
    trunk, spec = model.trunk, graph.spec
    x = _first_nodes(trunk, graph)
    pairs = pairs_of(graph, trunk.requirements)
    value = trunk.pairs.value
    none = value.linear.bias
    e = torch.stack(
        [
            none + sum((fourier(value, f) @ value.linear.weight.T for f in found), 0 * none)
            for found in pairs.features
        ]
    )
    for layer in trunk.layers:
        x = _nodes(layer.nodes, graph, pairs, x, e)
        e = _pairs(layer.pairs, graph, pairs, x, e)
    x = _nodes(trunk.last, graph, pairs, x, e)
    starts = node_offsets(spec)
    outputs = torch.cat(
        [
            x[starts[n.name] : starts[n.name] + spec.nodes_in(n.name)].flatten()
            for n in spec.node_sets
            if n.role == "output"
        ]
    )
    return model.last(model.readout.mlp(outputs))


def _first_nodes(trunk, graph: NeuralGraph) -> Tensor:  # type: ignore[no-untyped-def]
    spec, x = graph.spec, []
    positions, functions = position_identities(spec), activation_identities(spec)
    identity = trunk.nodes.identity
    for node_set in spec.node_sets:
        start = identity.starts[["input", "hidden", "output"].index(node_set.role)]
        for i, features in enumerate(graph.nodes[node_set.name][0]):
            values = torch.zeros(max(trunk.requirements.node_features, 1), dtype=features.dtype)
            values[: len(features)] = features
            state = trunk.nodes.value.linear(fourier(trunk.nodes.value, values))
            state = state + identity.positions.weight[start + positions[node_set.name][i]]
            x.append(state + identity.activation.weight[functions[node_set.name]])
    return torch.stack(x)


def _with_means(graph: NeuralGraph, x: Tensor) -> Tensor:
    sizes = [graph.spec.nodes_in(n.name) for n in graph.spec.node_sets]
    return torch.cat([x, torch.stack([part.mean(0) for part in x.split(sizes)])])


def _nodes(layer, graph: NeuralGraph, pairs: Pairs, x: Tensor, e: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
    attention = layer.attention
    heads, size = attention.heads, attention.query.weight.shape[0]
    seen = _with_means(graph, x)
    rows = []
    for i in range(len(x)):
        mine = [p for p, receiver in enumerate(pairs.receiver) if receiver == i]
        others = seen[[pairs.sender[p] for p in mine]]
        states = e[mine]
        q = attention.query(x[i]) + attention.pair_query(states)
        k = attention.key(others) + attention.pair_key(states)
        v = attention.value(others) * attention.pair_factor(states)
        v = v + attention.pair_value(states)
        q, k, v = (t.view(len(mine), heads, -1) for t in (q, k, v))
        shares = torch.softmax((q * k).sum(-1) / math.sqrt(size), dim=0)
        rows.append((shares.unsqueeze(-1) * v).sum(0).flatten())
    x = layer.norm(x + attention.out(torch.stack(rows)))
    return layer.last_norm(x + layer.second(F.gelu(layer.first(x))))


def _pairs(layer, graph: NeuralGraph, pairs: Pairs, x: Tensor, e: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
    seen = _with_means(graph, x)
    lifted = layer.pair(torch.cat([e, e[pairs.reverse]], dim=-1))
    lifted = lifted + layer.receiver(x[pairs.receiver]) + layer.sender(seen[pairs.sender])
    e = layer.norm(e + layer.out(F.gelu(lifted)))
    return layer.last_norm(e + layer.second(F.gelu(layer.first(e))))
