"""The linear NG-GNN once more, as exact FiLM messages edge by edge."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from weightspace.graph import NeuralGraph, activation_identities, position_identities
from weightspace.graph.interop import block_edges
from weightspace.models import Predictor
from weightspace.nn import feature_layout


def linear_oracle(model: Predictor, raw: NeuralGraph) -> Tensor:
    """What the model should output in evaluation mode, one network at a time."""
    return torch.stack([_one(model, raw[[i]]) for i in range(raw.batch_size)])


def _one(model: Predictor, raw: NeuralGraph) -> Tensor:
    graph = model.normaliser.normalisation(raw)
    trunk, spec = model.trunk, graph.spec
    nodes = _first_nodes(trunk, graph)
    sources, targets, edges = _edge_lifts(trunk, graph)
    for layer in trunk.layers:
        messages = layer.messages
        found = []
        for film, i, j in (
            (messages.along, targets, sources),
            (messages.against, sources, targets),
        ):
            scale, shift = film(edges).chunk(2, dim=-1)
            pair = messages.message(torch.cat([nodes[i], nodes[j]], dim=-1))
            found.append((i, scale * pair + shift))
        rows = []
        for node in range(len(nodes)):
            mine = torch.cat([values[i == node] for i, values in found])
            mean = mine.mean(0) if len(mine) else torch.zeros_like(nodes[0])
            amplified = mean * (math.log(len(mine) + 1) / layer.delta)
            rows.append(torch.cat([nodes[node], mean, amplified]))
        nodes = nodes + F.silu(layer.norm(layer.post(torch.stack(rows))))
    starts, total = {}, 0
    for node_set in spec.node_sets:
        starts[node_set.name] = total
        total += spec.nodes_in(node_set.name)
    ends = [
        nodes[starts[n.name] : starts[n.name] + spec.nodes_in(n.name)].flatten()
        for n in spec.of_role("output")
    ]
    return model.last(model.readout.mlp(torch.cat(ends)))


def _first_nodes(trunk, graph: NeuralGraph) -> Tensor:  # type: ignore[no-untyped-def]
    spec, x = graph.spec, []
    positions, functions = position_identities(spec), activation_identities(spec)
    identity, encoder = trunk.nodes.identity, trunk.nodes.value
    for node_set in spec.node_sets:
        start = identity.starts[["input", "hidden", "output"].index(node_set.role)]
        for i in range(spec.nodes_in(node_set.name)):
            features = graph.nodes[node_set.name][0, i]
            value = F.pad(features, (0, trunk.nodes.channels - len(features)))
            angles = value @ encoder.frequencies
            state = encoder.linear(torch.cat([angles.sin(), angles.cos()]))
            state = state + identity.positions.weight[start + positions[node_set.name][i]]
            x.append(state + identity.activation.weight[functions[node_set.name]])
    return torch.stack(x)


def _edge_lifts(trunk, graph: NeuralGraph) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[no-untyped-def]
    """Sources, targets and ``[edges, channels * lifts]`` in the common layout."""
    pairs, rows, count = [], [], trunk.lifting.count
    formulas = {"weight": lambda x: x, "size": abs, "squash": lambda x: x / (1 + abs(x))}
    for block in graph.spec.blocks:
        pairs.append(block_edges(graph.spec, block))
        channels = trunk.requirements.edge_channels(feature_layout(graph.spec, block))
        for weights in graph.edges[block.name][0].flatten(0, 2):
            row = torch.zeros(trunk.requirements.edge_features * count, dtype=weights.dtype)
            for channel, weight in zip(channels, weights, strict=True):
                for lift, name in enumerate(trunk.lifting.names):
                    row[channel * count + lift] = formulas[name](weight)
            rows.append(row)
    sources, targets = torch.cat(pairs, dim=1)
    return sources, targets, torch.stack(rows)
