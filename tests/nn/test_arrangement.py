"""Flat buffers of batches: every neuron and connection in its place."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.nn.batches import mixed_batch
from weightspace import from_module
from weightspace.graph import MixedGraph
from weightspace.nn import Networks, arrange
from weightspace.nn.pieces import directions


class Residual(nn.Module):
    """Grouped, depthwise and shared connections, attention, a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.grouped = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3, groups=2, padding=1)
        self.norm, self.last = nn.BatchNorm2d(8), nn.Linear(8, 5)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).relu()
        x = x + self.norm(self.grouped(x)).relu()
        tokens = x.flatten(2).transpose(1, 2)
        return self.last((tokens + self.attention(tokens, tokens, tokens)[0]).mean(1))


def batches() -> list[MixedGraph]:
    graph = from_module(Residual().eval(), torch.randn(1, 3, 6, 6)).to(torch.float64)
    again = MixedGraph.of([graph, graph])
    return [
        mixed_batch(False),
        mixed_batch(True),
        again,
        MixedGraph((graph, again.parts[0]), (2, 0, 1)),
    ]


@pytest.mark.parametrize("number", range(4))
def test_every_neuron_receives_from_its_neighbours(number: int) -> None:
    batch = batches()[number]
    arrangement = arrange(batch)
    own = torch.arange(arrangement.node_count, dtype=torch.float64).unsqueeze(1)
    received = torch.zeros(arrangement.received_count, 1, dtype=torch.float64)
    for run, target, source in zip(
        arrangement.runs, arrangement.at_targets(own), arrangement.at_sources(own), strict=True
    ):
        both = (target + 0 * source, source + 0 * target)
        received[run.at_target] = both[1].sum(2).reshape(-1, 1)
        received[run.at_source] = both[0].sum(1).reshape(-1, 1)
    found, states = arrangement.split(arrangement.merge(received)), arrangement.split(own)
    for part, graph in enumerate(batch.parts):
        for i in range(graph.batch_size):
            expected = _neighbour_sums(graph, states, part, i)
            for place in range(len(graph.spec.node_sets)):
                torch.testing.assert_close(found[part, place][i], expected[place])


def _neighbour_sums(graph, states, part, i):  # type: ignore[no-untyped-def]
    """Neighbours' numbers, summed over the edge list that networkx and PyG are given."""
    from weightspace.graph.interop import block_edges

    spec = graph.spec
    numbers = torch.cat([states[part, place][i] for place in range(len(spec.node_sets))])
    total = torch.zeros_like(numbers)
    for block in spec.blocks:
        source, target = block_edges(spec, block)
        total.index_add_(0, target, numbers[source])
        total.index_add_(0, source, numbers[target])
    sizes = [spec.nodes_in(node_set.name) for node_set in spec.node_sets]
    return torch.split(total, sizes)


@pytest.mark.parametrize("number", range(4))
def test_degrees_positions_and_networks(number: int) -> None:
    batch = batches()[number]
    arrangement = arrange(batch)
    ones = torch.zeros(arrangement.received_count, 1)
    for way in directions(arrangement):
        ones[way.received] = way.run.sources if way.index == 0 else way.run.targets
    assert torch.equal(arrangement.merge(ones), arrangement.degrees)
    networks = arrangement.split(arrangement.networks[:, None])
    start = 0
    for part, graph in enumerate(batch.parts):
        for place, node_set in enumerate(graph.spec.node_sets):
            rows = networks[part, place][..., 0]
            assert torch.equal(rows[:, 0], start + torch.arange(graph.batch_size))
            assert rows.shape[1] == graph.spec.nodes_in(node_set.name)
        start += graph.batch_size


@pytest.mark.parametrize("number", range(4))
def test_views_split_and_back(number: int) -> None:
    batch = batches()[number]
    arrangement = arrange(batch)
    edges = torch.randn(arrangement.edge_count, 2)
    assert torch.equal(arrangement.flat(arrangement.views(edges)), edges)
    nodes = torch.randn(arrangement.node_count, 2)
    assert torch.equal(arrangement.join(arrangement.split(nodes)), nodes)


@pytest.mark.parametrize("number", range(4))
def test_features_are_those_of_the_graphs(number: int) -> None:
    batch = batches()[number]
    networks = Networks(batch, batch)
    for run in networks.arrangement.runs:
        blocks = networks.split_edges(run, networks.edge_features(run))
        for member, values in zip(run.members, blocks, strict=True):
            graph = batch.parts[member.part]
            assert torch.equal(values, graph.edges[graph.spec.blocks[member.block].name])
    nodes = networks.arrangement.split(networks.node_features(9))
    for (part, place), values in nodes.items():
        graph = batch.parts[part]
        features = graph.nodes[graph.spec.node_sets[place].name]
        width = features.shape[-1]
        assert torch.equal(values[..., :width], features)
        assert not values[..., width:].any()


def test_order_of_a_mixed_batch() -> None:
    batch = mixed_batch(True)
    assert batch.order == (0, 1, 3, 4, 5, 6, 7, 2, 8)
    rows = torch.cat([torch.full((part.batch_size,), i) for i, part in enumerate(batch.parts)])
    assert batch.in_order(rows).tolist() == [0, 0, 1, 1, 1, 2, 2, 0, 3]
    for graph, part in zip(batch.networks(), batch.in_order(rows).tolist(), strict=True):
        assert graph.spec == batch.specs[part]
