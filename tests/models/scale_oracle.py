"""ScaleGMN once more, neuron by neuron and edge by edge, with none of the package's block code."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.models.oracle import edge_list
from weightspace.graph import NeuralGraph, activation_identities, position_identities
from weightspace.models import Predictor

Freedom = tuple[bool, bool]


def freedoms(graph: NeuralGraph) -> list[Freedom]:
    """Sign and scale of each neuron of a chain, from what its activation is known to be."""
    found: list[Freedom] = []
    for node_set in graph.spec.node_sets:
        hidden, name = node_set.role == "hidden", node_set.activation.name
        sign = hidden and name in {"tanh", "sine", "none"}
        scale = hidden and name in {"relu", "leaky_relu", "none"}
        found += [(sign, scale)] * graph.spec.nodes_in(node_set.name)
    return found


def oracle(model: Predictor, graph: NeuralGraph) -> Tensor:
    """What the model should output for networks that are in canonical form already."""
    return torch.stack([_one(model, graph[[i]]) for i in range(graph.batch_size)])


def _norm(square: Tensor, freedom: Freedom) -> Tensor:
    square = square if freedom[1] else square + 1
    return square.rsqrt() if square > 0 else torch.zeros_like(square)


def _activated(given: Tensor, argument: Tensor, freedom: Freedom) -> Tensor:
    hidden = F.silu(given + argument)
    return hidden + F.silu(given - argument) if freedom[0] else hidden


def _settled(x: Tensor, freedom: Freedom) -> Tensor:
    return x if freedom[1] else x * (x.square().mean() + 1e-6).rsqrt()


def _invariant(net, x: Tensor, given: Tensor, freedom: Freedom) -> Tensor:  # type: ignore[no-untyped-def]
    argument = net.states(x * _norm(x.square().mean(), freedom))
    return F.silu(net.out(_activated(net.given(given), argument, freedom)))


def _first_nodes(model: Predictor, graph: NeuralGraph, free: list[Freedom]):  # type: ignore[no-untyped-def]
    nodes, identity = model.trunk.nodes, model.trunk.nodes.identity
    deviations = model.normaliser.normalisation
    positions, functions = position_identities(graph.spec), activation_identities(graph.spec)
    normal = deviations(graph)
    states, given = [], []
    for node_set in graph.spec.node_sets:
        for i in range(graph.spec.nodes_in(node_set.name)):
            freedom = free[len(states)]
            own, plain = torch.zeros(2, nodes.channels, dtype=torch.float64)
            if node_set.pieces:
                carried = graph.nodes[node_set.name][0, i]
                if any(freedom):
                    own = carried / deviations.scale_of(graph.spec, node_set)
                else:
                    plain = normal.nodes[node_set.name][0, i]
            start = identity.starts[["input", "hidden", "output"].index(node_set.role)]
            known = identity.positions.weight[start + positions[node_set.name][i]]
            known = known + identity.activation.weight[functions[node_set.name]]
            known = known + nodes.plain(plain)
            state = nodes.weighed(own) if any(freedom) else known
            states.append(_settled(state, freedom))
            given.append(known)
    return states, given


def _one(model: Predictor, graph: NeuralGraph) -> Tensor:
    spec, trunk = graph.spec, model.trunk
    free = freedoms(graph)
    x, given = _first_nodes(model, graph, free)
    sources, targets, features, _ = edge_list(graph)
    owner = [b for b in spec.blocks for _ in range(spec.shape_of(b).edges)]
    along, against = [], []
    for source, target, value, block in zip(sources, targets, features[0], owner, strict=True):
        w = value / model.normaliser.normalisation.scale_of(spec, block)
        scaled = free[source][1] or free[target][1]
        reciprocal = w / (w * w + 0.25) if scaled else torch.zeros_like(w)
        along.append(w)
        against.append(torch.cat([w, reciprocal]))
    edges = [along, against] if trunk.bidirectional else [along]
    for layer in trunk.layers:
        received = []
        for way, messages in enumerate(layer.messages):
            ends = (sources, targets) if way == 0 else (targets, sources)
            found, edges[way] = _messages(messages, x, given, edges[way], ends, free)
            received.append(found)
        new = []
        for i, state in enumerate(x):
            joined = torch.cat([state, *(found[i] for found in received)])
            update = layer.update
            gate = update.gate(_invariant(update.invariant, joined, given[i], free[i]))
            new.append(_settled(state + update.linear(joined) * gate, free[i]))
        x = new
    return _read(model, graph, x, given, free)


def _messages(messages, x, given, edges, ends, free):  # type: ignore[no-untyped-def]  # noqa: PLR0917
    net, width = messages.gate, len(x[0])
    senders, receivers = ends
    total = [torch.zeros(width, dtype=torch.float64) for _ in x]
    own, count = [t.clone() for t in total], [0] * len(x)
    states = []
    for j, i, edge in zip(senders.tolist(), receivers.tolist(), edges, strict=True):
        product = net.edge(edge) * net.sender(x[j])
        square = (x[i].square().sum() + product.square().sum()) / width
        argument = (net.receiver(x[i]) + net.product(product)) * _norm(square, free[i])
        gates = net.gates(_activated(net.given(given[i]), argument, free[i]))
        total[i] = total[i] + product * gates[:width]
        own[i] = own[i] + messages.own(x[i]) * gates[:width]
        count[i] += 1
        if net.writes:
            base = edge if net.lift is None else net.lift(edge)
            states.append(base * gates[width:])
    found = [
        t / max(n, 1) ** 0.5 + o / max(n, 1) for t, o, n in zip(total, own, count, strict=True)
    ]
    return found, states if net.writes else edges


def _read(model, graph, x, given, free):  # type: ignore[no-untyped-def]
    readout, spec = model.readout, graph.spec
    roles = [n.role for n in spec.node_sets for _ in range(spec.nodes_in(n.name))]
    pooled = []
    for role in ("input", "hidden"):
        members = [i for i, found in enumerate(roles) if found == role]
        values = [_invariant(readout.invariant, x[i], given[i], free[i]) for i in members]
        zero = torch.zeros(readout.width, dtype=torch.float64)
        pooled.append(torch.stack(values).mean(0) if values else zero)
    outputs = [x[i] for i, found in enumerate(roles) if found == "output"]
    return model.last(readout.mlp(torch.cat([*pooled, *outputs])))
