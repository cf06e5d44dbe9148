"""Reorderings of batches against single group elements."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.strategies import chains, random_stacked
from tests.nn.test_arrangement import Residual
from weightspace import from_module
from weightspace.errors import StateError, SymmetryError
from weightspace.graph import (
    Axis,
    EdgeBlock,
    Factor,
    GraphSpec,
    GroupElement,
    NeuralGraph,
    NodeSet,
    Parameter,
    Piece,
    Reordering,
    Span,
    SymmetryGroup,
    chain_spec,
)


def residual() -> NeuralGraph:
    torch.manual_seed(0)
    graph = from_module(Residual().eval(), torch.randn(1, 3, 6, 6))
    return graph[[0, 0, 0, 0]].map(lambda x: torch.randn_like(x) if x.is_floating_point() else x)


def same(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> bool:
    return set(one) == set(two) and all(torch.equal(one[name], two[name]) for name in one)


def check(spec: GraphSpec, stacked: dict[str, torch.Tensor], seed: int) -> None:
    count = len(next(iter(stacked.values())))
    generator = torch.Generator().manual_seed(seed)
    reordering = Reordering.sample(spec, count, generator=generator)
    moved = reordering.act_stacked(stacked)
    for i in range(count):
        state = {name: tensor[i] for name, tensor in stacked.items()}
        expected = reordering.element(i).act_state(state)
        assert same({name: tensor[i] for name, tensor in moved.items()}, expected)
    assert same(reordering.inverse().act_stacked(moved), stacked)
    again = Reordering.of([reordering.element(i) for i in range(count)])
    assert same(again.act_stacked(stacked), moved)


@settings(max_examples=25, deadline=None)
@given(chains(), st.integers(0, 99))
def test_on_chains(spec: GraphSpec, seed: int) -> None:
    check(spec, random_stacked(spec, 3, seed), seed)


def test_on_groups_residuals_and_heads() -> None:
    graph = residual()
    check(graph.spec, graph.stacked_state(), 0)


def test_a_square_weight_between_nested_neurons() -> None:
    axes = (Axis("x", 2, "input", permutes=False), Axis("g", 2, "hidden"))
    axes = (*axes, Axis("c", 3, "hidden", within="g"))
    rows = Span((Factor(2, "g", "target"), Factor(3, "c", "target")))
    columns = Span((Factor(2, "g", "source"), Factor(3, "c", "source")))
    first = EdgeBlock(
        "first", "x", "a", pieces=(Piece("u", (rows, Span((Factor(2, "x", "source"),)))),)
    )
    square = EdgeBlock("square", "a", "b", pieces=(Piece("w", (rows, columns)),))
    nodes = (NodeSet("x", ("x",), "input"), *(NodeSet(n, ("g", "c"), "hidden") for n in "ab"))
    spec = GraphSpec(axes, nodes, (first, square), (Parameter("u", (6, 2)), Parameter("w", (6, 6))))
    check(spec, random_stacked(spec, 3, 0), 0)
    element = SymmetryGroup(spec).sample(torch.Generator().manual_seed(1))
    weight = torch.arange(36.0).reshape(6, 6)
    state = {"u": torch.zeros(6, 2), "w": weight}
    g, c = element.permutations["g"], element.permutations["c"]
    order = torch.tensor([3 * int(g[i]) + int(c[i, k]) for i in range(2) for k in range(3)])
    assert torch.equal(element.act_state(state)["w"], weight[order][:, order])


def test_gradients_and_further_node_features() -> None:
    spec = chain_spec([2, 4, 3, 1])
    stacked = {n: t.requires_grad_() for n, t in random_stacked(spec, 2, 0, torch.float64).items()}
    reordering = Reordering.sample(spec, 2, generator=torch.Generator().manual_seed(0))
    graph = NeuralGraph.from_stacked(spec, stacked)
    graph = graph.with_extra("seen", {"0": graph.nodes["0"]})
    moved = reordering.act_graph(graph)
    assert torch.equal(moved.extra["seen"]["0"], moved.nodes["0"])
    moved.edges["1.weight"][:, 0, 0, 0].sum().backward()
    grad = stacked["1.weight"].grad
    assert grad is not None
    p, q = reordering.permutations["1"], reordering.permutations["0"]
    assert grad.sum() == 2
    assert all(grad[i, p[i, 0], q[i, 0]] == 1 for i in range(2))


def test_permutations_are_uniform() -> None:
    spec = chain_spec([1, 3, 1])
    draws = Reordering.sample(spec, 6000, generator=torch.Generator().manual_seed(0))
    counts = draws.permutations["0"].unique(dim=0, return_counts=True)[1]
    assert len(counts) == 6
    assert (counts - 1000).abs().max() < 150


def test_what_does_not_fit_is_refused() -> None:
    spec = chain_spec([1, 3, 1])
    with pytest.raises(StateError, match="2 networks"):
        Reordering.sample(spec, 2).act_stacked(random_stacked(spec, 3, 0))
    with pytest.raises(SymmetryError, match="one spec"):
        Reordering.of([])
    flipped = GroupElement(spec, {}, {"x": torch.ones(3)})
    with pytest.raises(SymmetryError, match="factors"):
        Reordering.of([flipped])
