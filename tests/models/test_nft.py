"""NFT: the battery, an oracle of single tokens, modules, refusals."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.graph.strategies import chains
from tests.models.networks import Grouped, networks_of, plain_networks
from weightspace.errors import ModelError
from weightspace.graph import GraphSpec, MixedGraph, SymmetryGroup, chain_spec
from weightspace.models import NFT, Editor, Predictor, Requirements, Trunk
from weightspace.nn import NFTLayer, arrange
from weightspace.nn.touching import touching
from weightspace.testing import TrunkBattery
from weightspace.testing.networks import sample_graph


class TestNFT(TrunkBattery):
    def make(self, requirements: Requirements) -> Trunk:
        return NFT(requirements, width=4, layers=2, heads=2, frequencies=3, sigma=0.5, head=6)


def attention(heads: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """What ``queries [items, neurons, d]`` gather; the inner product is over neurons and heads'
    channels."""
    result = torch.zeros_like(queries)
    size = queries.shape[-1] // heads
    for head in range(heads):
        own = slice(head * size, (head + 1) * size)
        for q in range(len(queries)):
            scores = torch.stack([(queries[q, :, own] * key[:, own]).sum() for key in keys])
            shares = (scores / math.sqrt(queries.shape[1] * size)).softmax(0)
            result[q, :, own] = sum(
                share * value[:, own] for share, value in zip(shares, values, strict=True)
            )
    return result


def tokenwise(
    layer: NFTLayer, weights: list[Tensor], biases: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """The layer for one chain: ``weights [targets, sources, d]``, ``biases [neurons, d]``."""
    width = biases[0].shape[-1]
    first = [layer.first["edge"](w) for w in weights], [layer.first["node"](b) for b in biases]
    edges = [layer.project["edge"](w).split(width, -1) for w in first[0]]
    nodes = [layer.project["node"](b).split(width, -1) for b in first[1]]
    at_target, at_source, own = {}, {}, {}
    for place in range(len(biases)):
        parts = []
        for kind in range(3):
            tokens = [nodes[place][kind]]
            if place > 0:
                tokens += list(edges[place - 1][kind].unbind(1))
            if place < len(weights):
                tokens += list(edges[place][kind].unbind(0))
            parts.append(torch.stack(tokens))
        found = attention(layer.heads, *parts)
        own[place], start = found[0], 1
        if place > 0:
            stop = start + weights[place - 1].shape[1]
            at_target[place - 1], start = found[start:stop].transpose(0, 1), stop
        if place < len(weights):
            at_source[place] = found[start:]
    means = [b.mean(0) for b in first[1]] + [w.mean((0, 1)) for w in first[0]]
    keys, values = layer.layers(torch.stack(means)).split(width, -1)

    def ask(asks: Tensor) -> Tensor:
        flat = asks.flatten(0, -2).unsqueeze(1)
        found = attention(layer.heads, flat, keys.unsqueeze(1), values.unsqueeze(1))
        return found.view(asks.shape)

    new_weights, new_biases = [], []
    for place, weight in enumerate(weights):
        gathered = torch.cat(
            [at_target[place], at_source[place], ask(layer.ask["edge"](first[0][place]))], -1
        )
        between = weight + layer.out["edge"](gathered)
        new_weights.append(between + layer.mlp["edge"](between))
    for place, bias in enumerate(biases):
        between = bias + layer.out["node"](
            torch.cat([own[place], ask(layer.ask["node"](first[1][place]))], -1)
        )
        new_biases.append(between + layer.mlp["node"](between))
    return new_weights, new_biases


@settings(max_examples=8, deadline=None)
@given(chains(max_width=3, max_hidden=2), st.integers(0, 99))
def test_against_the_oracle(spec: GraphSpec, seed: int) -> None:
    torch.manual_seed(seed)
    layer = NFTLayer(4, heads=2).double()
    arrangement = arrange(MixedGraph.of(sample_graph(spec, 2, seed=seed)))
    nodes = torch.randn(arrangement.node_count, 4, dtype=torch.float64)
    edges = torch.randn(arrangement.edge_count, 4, dtype=torch.float64)
    states, views = arrangement.split(nodes), arrangement.views(edges)
    new_nodes, new_edges = layer(arrangement, touching(arrangement), nodes, edges)
    new_states, new_views = arrangement.split(new_nodes), arrangement.views(new_edges)
    places = range(len(spec.node_sets))
    for i in range(2):
        weights, biases = tokenwise(
            layer, [view[i] for view in views], [states[0, place][i] for place in places]
        )
        for one, two in zip(new_views, weights, strict=True):
            torch.testing.assert_close(one[i], two)
        for place in places:
            torch.testing.assert_close(new_states[0, place][i], biases[place])


def test_convolutions_norms_and_tied_axes() -> None:
    graph = plain_networks()
    trunk = NFT(Requirements.of([graph.spec]), width=4, layers=2, frequencies=3, head=6)
    predict, edit = Predictor(trunk, outputs=2).double().eval(), Editor(trunk).double().eval()
    element = SymmetryGroup(graph.spec).sample(torch.Generator().manual_seed(0))
    moved = element.act_graph(graph)
    torch.testing.assert_close(predict(graph), predict(moved), atol=1e-10, rtol=1e-10)
    one, two = element.act_graph(edit(graph)), edit(moved)
    for name, tensor in one.edges.items():
        torch.testing.assert_close(tensor, two.edges[name], atol=1e-10, rtol=1e-10)


def test_other_permutations_change_the_output() -> None:
    graph = sample_graph(chain_spec([2, 6, 6, 1]), 1)
    model = Predictor(NFT(Requirements.of([graph.spec]), width=16), outputs=2).double()
    edges = {**graph.edges, "1.weight": graph.edges["1.weight"].flip(3)}
    assert (model(graph) - model(graph.with_features(edges=edges))).abs().max() > 1e-6


def test_what_it_cannot_read_is_named() -> None:
    spec = networks_of(Grouped(), torch.randn(1, 2, 4, 4)).spec
    with pytest.raises(ModelError, match=r"grouped.*nfn-np"):
        NFT(Requirements.of([spec])).check(spec)
    with pytest.raises(ModelError, match="divides the width"):
        NFT(Requirements.of([chain_spec([2, 4, 1])]), width=6, heads=4)
    with pytest.raises(ModelError, match="another"):
        NFT(Requirements.of([chain_spec([2, 4, 1])])).check(chain_spec([2, 5, 1]))
