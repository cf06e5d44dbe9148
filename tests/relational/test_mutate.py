from __future__ import annotations

import pytest
import torch
from torch import nn

from weightspace.errors import GraphError
from weightspace.relational import RelationalGraph, complete, ring, ws_flex
from weightspace.relational.graph import connected_parts
from weightspace.relational.layers import RelationalConv2d, RelationalLinear
from weightspace.relational.mutate import adopt_graph, mutate, mutate_network
from weightspace.relational.networks import mlp_family
from weightspace.relational.stacked import StackedRelationalMLP

GRAPH = ws_flex(8, 3, 0.3, seed=0)


@pytest.mark.parametrize("kind", ["add", "remove", "rewire"])
def test_mutations_change_one_edge_and_stay_connected(kind: str) -> None:
    graph = GRAPH
    for seed in range(4):
        mutation = mutate(graph, kind, seed=seed)  # type: ignore[arg-type]
        new = mutation.graph
        assert connected_parts(new.adjacency) == 1
        old = {tuple(edge) for edge in graph.edges.tolist()}
        now = {tuple(edge) for edge in new.edges.tolist()}
        assert now - old == ({mutation.added} if mutation.added else set())
        assert old - now == ({mutation.removed} if mutation.removed else set())
        assert len(now) - len(old) == {"add": 1, "remove": -1, "rewire": 0}[kind]
        graph = new
    assert mutate(GRAPH, kind, seed=3).graph == mutate(GRAPH, kind, seed=3).graph  # type: ignore[arg-type]


def test_mutations_that_do_not_exist() -> None:
    with pytest.raises(GraphError, match="fewer than 10 edges"):
        mutate(complete(5), "add", seed=0)
    path = RelationalGraph.from_edges(3, [(0, 1), (1, 2)])
    with pytest.raises(GraphError, match="holds it together"):
        mutate(path, "remove", seed=0)
    with pytest.raises(GraphError, match="can end at another node"):
        mutate(complete(4), "rewire", seed=0)
    with pytest.raises(GraphError, match="one of add, remove, rewire"):
        mutate(path, "turn", seed=0)  # type: ignore[arg-type]


def test_weights_of_shared_edges_are_kept_and_training_goes_on() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        RelationalConv2d(8, 16, GRAPH, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16, 16),
        RelationalLinear(16, 16, GRAPH),
    )
    optimiser = torch.optim.Adam(net.parameters())
    x = torch.randn(4, 8, 3, 3)
    net(x).square().sum().backward()
    optimiser.step()
    before = net(x)
    old = [net[0].weight.clone(), net[4].weight.clone()]
    added = mutate_network(net, "add", seed=1, optimiser=optimiser).added
    assert added is not None
    torch.testing.assert_close(net(x), before)
    net.zero_grad()
    net(x).square().sum().backward()
    layer = net[4]
    new_rows = layer.wiring_.channels("out")[added[0]]
    new_columns = layer.wiring_.channels("in")[added[1]]
    assert layer.weight.grad[new_rows.start : new_rows.stop, new_columns.start].any()
    optimiser.step()
    assert layer.weight[new_rows.start, new_columns.start] != 0
    mutation = mutate_network(net, "rewire", seed=2, fresh="fan_in", optimiser=optimiser)
    for part, weight in zip((net[0], net[4]), old, strict=True):
        assert part.graph == mutation.graph
        outside = part.mask.expand_as(part.weight) == 0
        assert not part.weight[outside].any()
        assert not optimiser.state[part.weight]["exp_avg"][outside].any()
        assert part.weight.shape == weight.shape
    clone = RelationalLinear(16, 16, mutation.graph)
    clone.load_state_dict(net[4].state_dict())
    with pytest.raises(GraphError, match=r"found 5 nodes"):
        adopt_graph(net, ring(5))
    with pytest.raises(GraphError, match="found 2 graphs"):
        mutate_network(nn.Sequential(net, RelationalLinear(8, 8, ring(8))), "add", seed=0)


def test_a_stack_is_its_networks() -> None:
    graphs = [ring(8), complete(8), GRAPH]
    stack = StackedRelationalMLP(graphs, inputs=12, outputs=3, width=21, layers=2)
    x = torch.randn(16, 12)
    singles = [stack.network(number) for number in range(3)]
    ours = stack(x)
    theirs = torch.stack([net(x) for net in singles])
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)
    ours.square().sum().backward()
    theirs.square().sum().backward()
    for number, net in enumerate(singles):
        wired = net[4]  # type: ignore[index]
        own = stack.weights[1].grad[number].t()
        torch.testing.assert_close(own, wired.weight.grad, atol=1e-5, rtol=1e-4)
    stack.eval()
    for number, net in enumerate(singles):
        torch.testing.assert_close(stack(x)[number], net.eval()(x), atol=1e-5, rtol=1e-4)


def test_a_stack_begins_as_its_networks_do() -> None:
    stack = StackedRelationalMLP([ring(8)] * 2, inputs=12, outputs=3, width=16, seeds=[5, 6])
    torch.manual_seed(6)
    single = mlp_family(inputs=12, outputs=3, width=16).module(ring(8))
    x = torch.randn(8, 12)
    torch.testing.assert_close(stack(x)[1], single(x), atol=1e-5, rtol=1e-4)
