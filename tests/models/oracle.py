"""NG-GNN once more, edge by edge, with none of the package's block code."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from weightspace.graph import NeuralGraph, activation_identities, position_identities
from weightspace.models import Predictor
from weightspace.nn import FourierLinear


def edge_list(graph: NeuralGraph) -> tuple[Tensor, Tensor, Tensor, dict[str, int]]:
    """Sources, targets and features of every connection, and where each node set starts."""
    spec = graph.spec
    starts, total = {}, 0
    for node_set in spec.node_sets:
        starts[node_set.name] = total
        total += spec.nodes_in(node_set.name)
    sources, targets, features = [], [], []
    for block in spec.blocks:
        tensor = graph.edges[block.name]
        assert tensor.shape[1] == 1, "the oracle knows dense blocks"
        for t in range(tensor.shape[2]):
            for s in range(tensor.shape[3]):
                sources.append(starts[block.source] + s)
                targets.append(starts[block.target] + t)
                features.append(tensor[:, 0, t, s])
    return torch.tensor(sources), torch.tensor(targets), torch.stack(features, 1), starts


def fourier(layer: FourierLinear, values: Tensor) -> Tensor:
    """Random Fourier features and a linear map of them."""
    angles = values @ layer.frequencies
    return layer.linear(torch.cat([angles.sin(), angles.cos()], dim=-1))


def oracle(model: Predictor, graph: NeuralGraph, probed: list[Tensor] | None = None) -> Tensor:
    """What the model should output in evaluation mode, one network at a time."""
    rows = []
    for i in range(graph.batch_size):
        seen = None if probed is None else torch.cat([p[i] for p in probed])
        rows.append(_one(model, graph[[i]], seen))
    return torch.stack(rows)


def _one(model: Predictor, raw: NeuralGraph, seen: Tensor | None) -> Tensor:
    graph = model.normaliser.normalisation(raw)
    trunk = model.trunk
    spec = graph.spec
    x = []
    positions, functions = position_identities(spec), activation_identities(spec)
    for node_set in spec.node_sets:
        for i in range(spec.nodes_in(node_set.name)):
            features = graph.nodes[node_set.name][0, i]
            value = torch.zeros(max(trunk.requirements.node_features, 1), dtype=features.dtype)
            value[: len(features)] = features
            state = fourier(trunk.nodes.value, value)
            identity = trunk.nodes.identity
            start = identity.starts[["input", "hidden", "output"].index(node_set.role)]
            state = state + identity.positions.weight[start + positions[node_set.name][i]]
            x.append(state + identity.activation.weight[functions[node_set.name]])
    nodes = torch.stack(x)
    if seen is not None:
        nodes = nodes + seen
    sources, targets, features, starts = edge_list(graph)
    one = fourier(trunk.edges.value, features[0])
    none = torch.zeros_like(one)
    # every connection twice: i receives from j along it, and j from i against it
    receivers = torch.cat([targets, sources])
    senders = torch.cat([sources, targets])
    edges = trunk.edges.directions(
        torch.cat([torch.cat([one, none, one], 1), torch.cat([none, one, one], 1)])
    )
    for layer in trunk.layers:
        nodes = _messages(layer.messages, nodes, edges, receivers, senders)
        u = layer.update
        edges = u.out(
            F.silu(u.edge(edges) + u.receiver(nodes)[receivers] + u.sender(nodes)[senders])
        )
        nodes = F.silu(layer.norm(nodes))
    nodes = _messages(trunk.last, nodes, edges, receivers, senders)
    outputs = torch.cat(
        [
            nodes[starts[n.name] : starts[n.name] + spec.nodes_in(n.name)].flatten()
            for n in spec.node_sets
            if n.role == "output"
        ]
    )
    return model.last(model.readout.mlp(outputs))


def _messages(layer, nodes, edges, receivers, senders):  # type: ignore[no-untyped-def]
    scale, shift = layer.film(edges).chunk(2, dim=-1)
    pair = layer.message(torch.cat([nodes[receivers], nodes[senders]], dim=-1))
    messages = scale * pair + shift
    rows = []
    for i in range(len(nodes)):
        mine = messages[receivers == i]
        mean = mine.mean(0)
        deviation = (((mine * mine).mean(0) - mean * mean).clamp_min(0) + 1e-5).sqrt()
        found = torch.cat([mean, mine.min(0).values, mine.max(0).values, deviation])
        amplified = found * (math.log(len(mine) + 1) / layer.delta)
        rows.append(torch.cat([nodes[i], found, amplified]))
    return layer.out(layer.post(torch.stack(rows)))
