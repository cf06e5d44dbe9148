"""Edge lists: the same connections and numbers as the blocks."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from weightspace import from_module
from weightspace.graph import NeuralGraph
from weightspace.graph.interop import block_edges, node_offsets


@pytest.fixture(scope="module")
def graph() -> NeuralGraph:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 6, 1, groups=2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 2),
    )  # fmt: skip
    return from_module(net, torch.randn(1, 3, 5, 5))


def test_networkx_has_every_connection(graph: NeuralGraph) -> None:
    result = graph.to_networkx()
    spec = graph.spec
    assert (len(result), result.number_of_edges()) == (spec.node_count, spec.edge_count)
    offsets = node_offsets(spec)
    block = spec.block("6.weight")
    target, source = offsets["6"] + 1, offsets["3"] + 4
    edge = result.edges[source, target, block.name]
    assert edge["features"] == [pytest.approx(float(graph.edges["6.weight"][0, 0, 1, 4, 0]))]
    assert result.nodes[target]["role"] == "output"
    assert result.nodes[offsets["1"]]["features"] == graph.nodes["1"][0, 0].tolist()


def test_groups_connect_within_themselves(graph: NeuralGraph) -> None:
    spec = graph.spec
    sources, targets = block_edges(spec, spec.block("3.weight"))
    offsets = node_offsets(spec)
    assert torch.equal((sources - offsets["1"]) // 2, (targets - offsets["3"]) // 3)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_pyg_has_the_same_numbers(graph: NeuralGraph) -> None:
    data = graph.to_pyg()
    spec = graph.spec
    assert data.validate()
    assert (data.num_nodes, data.num_edges) == (spec.node_count, spec.edge_count)
    names = [block.name for block in spec.blocks]
    for name in names:
        rows = data.edge_attr[data.block == names.index(name)]
        wanted = graph.edges[name][0].flatten(0, 2)
        assert torch.equal(rows[:, : wanted.shape[1]], wanted)
        assert not rows[:, wanted.shape[1] :].any()
    assert data.role.bincount().tolist() == [3, 14, 2]
