"""Graphs read from weights: planted ones come back, chance looks like chance."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from weightspace.errors import GraphError, ModelError
from weightspace.importers import from_module
from weightspace.relational import RelationalGraph, ring, ws_flex
from weightspace.relational.from_weights import (
    compare_with_nulls,
    hidden_weights,
    layer_block_norms,
    neural_block_norms,
    read_graphs,
    shuffled_weights,
)


def mlp(width: int, layers: int, graph: RelationalGraph | None = None) -> nn.Sequential:
    """An MLP whose hidden layers are wired by a graph, if there is one, with weak noise."""
    torch.manual_seed(0)
    sizes = [3, *[width] * layers, 2]
    net = nn.Sequential()
    for a, b in itertools.pairwise(sizes):
        net.append(nn.Linear(a, b))
        net.append(nn.ReLU())
    if graph is not None:
        blocks = np.kron(graph.adjacency, np.ones((width // graph.n,) * 2))
        mask = torch.from_numpy(0.05 + blocks).float()
        for layer in net:
            if isinstance(layer, nn.Linear) and layer.in_features == layer.out_features == width:
                layer.weight.data *= mask
    return net[:-1]


def plain_norms(weights: list[Tensor], n: int) -> np.ndarray:
    size = len(weights[0]) // n
    found = np.zeros((n, n))
    for a in range(n):
        for b in range(n):
            for weight in weights:
                both = weight + weight.T
                block = both[a * size : (a + 1) * size, b * size : (b + 1) * size]
                found[a, b] += float(block.double().square().sum())
    return np.sqrt(found)


def test_norms_are_those_of_the_published_procedure() -> None:
    weights = hidden_weights(mlp(24, 4))
    assert len(weights) == 3
    assert layer_block_norms(weights, 6) == pytest.approx(plain_norms(weights, 6), rel=1e-5)


def test_planted_graphs_come_back() -> None:
    graph = ws_flex(16, 4, 0.2, seed=0)
    share = len(graph.edges) / (16 * 15 / 2)
    net = mlp(64, 4, graph)
    for norms in (
        layer_block_norms(hidden_weights(net), 16),
        neural_block_norms(from_module(net, torch.zeros(1, 3)), 16),
    ):
        (read,) = read_graphs(norms, shares=[share])
        assert read.graph == graph
        assert read.parts == 1


def test_groups_follow_the_neurons() -> None:
    graph = ring(8)
    weights = hidden_weights(mlp(32, 3, graph))
    order = np.random.default_rng(0).permutation(32)
    moved = [weight[order][:, order] for weight in weights]
    groups = np.repeat(np.arange(8), 4)[order]
    expected = layer_block_norms(weights, 8)
    assert layer_block_norms(moved, 8, groups=groups) == pytest.approx(expected)


def test_convolutions_are_read_through_their_neural_graph() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 12, 3), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 2),
    )  # fmt: skip
    norms = neural_block_norms(from_module(net, torch.zeros(1, 1, 8, 8)), 4)
    weight = net[3].weight.detach().double().square().sum((2, 3)).reshape(4, 3, 4, 2).sum((1, 3))
    assert norms == pytest.approx((weight + weight.T).sqrt().numpy(), rel=1e-5)


def test_grouped_convolutions_join_neighbours_only() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 8, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=4), nn.ReLU(),
        nn.Flatten(), nn.Linear(8, 2),
    )  # fmt: skip
    norms = neural_block_norms(from_module(net, torch.zeros(1, 1, 3, 3)), 4)
    assert np.count_nonzero(norms) == 4
    assert (np.diag(norms) > 0).all()


def test_random_weights_look_random() -> None:
    torch.manual_seed(1)
    weights = [torch.randn(128, 128) for _ in range(3)]
    read = read_graphs(layer_block_norms(weights, 32), shares=[0.3])[0]
    nulls = compare_with_nulls(read, nulls=10)
    assert set(nulls) == {"erdos-renyi", "degree-preserving"}
    for own in nulls.values():
        assert abs(own.clustering_z) < 4
        assert abs(own.path_length_z) < 4


def test_planted_small_worlds_do_not() -> None:
    weights = hidden_weights(mlp(128, 3, ws_flex(32, 6, 0.1, seed=0)))
    share = 96 / (32 * 31 / 2)
    read = read_graphs(layer_block_norms(weights, 32), shares=[share])[0]
    assert compare_with_nulls(read, nulls=10)["erdos-renyi"].clustering_z > 5
    shuffled = shuffled_weights(weights, seed=0)
    assert all(
        torch.equal(a.flatten().sort().values, b.flatten().sort().values)
        for a, b in zip(weights, shuffled, strict=True)
    )
    chance = read_graphs(layer_block_norms(shuffled, 32), shares=[share])[0]
    assert chance.clustering < 0.6 * read.clustering


def test_thresholds_keep_the_strongest() -> None:
    norms = layer_block_norms(hidden_weights(mlp(32, 3)), 8)
    found = read_graphs(norms)
    assert [own.share for own in found] == [0.1, 0.2, 0.3, 0.4, 0.5]
    counts = [int(own.adjacency.sum()) // 2 for own in found]
    assert counts == [round(share * 28) for share in (0.1, 0.2, 0.3, 0.4, 0.5)]
    for own in found:
        upper = np.triu(own.adjacency, 1)
        assert norms[upper].min() == pytest.approx(own.threshold)
        assert norms[np.triu(~own.adjacency, 1)].max() <= own.threshold
    (whole,) = read_graphs(norms, shares=[1])
    assert (whole.clustering, whole.path_length) == (1, 1)


def test_graphs_in_parts_are_said_to_be() -> None:
    norms = np.kron(np.eye(2), np.ones((4, 4)))
    (read,) = read_graphs(norms, shares=[12 / 28])
    assert read.parts == 2
    assert math.isnan(read.path_length)
    with pytest.raises(GraphError, match="2 parts"):
        compare_with_nulls(read)


def test_what_cannot_be_read_is_refused() -> None:
    weights = [torch.randn(8, 8)]
    with pytest.raises(GraphError, match="at most 8, one a neuron, found 9"):
        layer_block_norms(weights, 9)
    with pytest.raises(GraphError, match="none empty"):
        layer_block_norms(weights, 3, groups=np.zeros(8, dtype=int))
    with pytest.raises(ModelError, match=r"finite numbers of shape \(8, 8\)"):
        layer_block_norms([*weights, torch.full((8, 8), torch.nan)], 4)
    with pytest.raises(ModelError, match="at least one hidden layer"):
        layer_block_norms([], 4)
    with pytest.raises(ModelError, match="as many outputs as inputs"):
        hidden_weights(nn.Linear(3, 4))
    with pytest.raises(GraphError, match=r"above 0, at most 1, found 1\.2"):
        read_graphs(np.ones((4, 4)), shares=[1.2])
    one = from_module(nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1)), torch.zeros(1, 2))
    with pytest.raises(ModelError, match="connections between two hidden layers"):
        neural_block_norms(one, 4)
    two = from_module(mlp(6, 2), torch.zeros(1, 3))
    with pytest.raises(GraphError, match="at most 6, one a neuron, found 7"):
        neural_block_norms(two, 7)
