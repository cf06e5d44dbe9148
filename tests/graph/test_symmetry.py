"""The symmetry group: sampling, acting, composing, and the check that can fail."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.graph.strategies import chains, random_stacked
from tests.graph.test_neural_graph import grouped_spec
from weightspace.errors import SymmetryError
from weightspace.graph import (
    ChainRunner,
    GraphSpec,
    GroupElement,
    NeuralGraph,
    SymmetryGroup,
    chain_spec,
)


@given(chains(), st.integers(0, 99))
def test_the_function_is_unchanged(spec: GraphSpec, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    state = {k: v[0] for k, v in random_stacked(spec, 1, seed, torch.float64).items()}
    inputs = torch.randn(7, spec.nodes_in("input"), generator=generator, dtype=torch.float64)
    report = SymmetryGroup(spec).check(
        ChainRunner(spec).function(inputs), state, generator=generator
    )
    report.require(1e-9)


def test_the_check_fails_on_a_wrong_permutation() -> None:
    spec = chain_spec([2, 6, 6, 1], activations="tanh")
    state = {k: v[0] for k, v in random_stacked(spec, 1, 0, torch.float64).items()}
    function = ChainRunner(spec).function(torch.randn(5, 2, dtype=torch.float64))

    class Wrong(SymmetryGroup):
        """Permutes a layer's rows and forgets the next layer's columns."""

        def sample(self, generator: torch.Generator, **_: object) -> GroupElement:
            right = super().sample(generator)

            class Element(GroupElement):
                def act_state(self, state):  # type: ignore[no-untyped-def]
                    return {**state, "0.weight": right.act_state(state)["0.weight"]}

            return Element(right.spec, right.permutations)

    report = Wrong(spec).check(function, state)
    assert report.max_relative_change > 1e-3
    with pytest.raises(SymmetryError, match="does not describe"):
        report.require(1e-4)


def test_the_check_fails_on_nan() -> None:
    spec = chain_spec([2, 6, 1], activations="tanh")
    state = {k: v[0] for k, v in random_stacked(spec, 1, 0).items()}
    state["0.weight"][0, 0] = math.nan
    report = SymmetryGroup(spec).check(ChainRunner(spec).function(torch.ones(1, 2)), state)
    with pytest.raises(SymmetryError):
        report.require()


def test_acting_by_hand() -> None:
    spec = chain_spec([2, 3, 1])
    state = {k: v[0] for k, v in random_stacked(spec, 1, 0).items()}
    permutation = torch.tensor([2, 0, 1])
    moved = GroupElement(spec, {"0": permutation}).act_state(state)
    assert torch.equal(moved["0.weight"], state["0.weight"][permutation])
    assert torch.equal(moved["0.bias"], state["0.bias"][permutation])
    assert torch.equal(moved["1.weight"], state["1.weight"][:, permutation])
    assert torch.equal(moved["1.bias"], state["1.bias"])


@given(chains(), st.integers(0, 99))
def test_acting_on_the_graph_is_acting_on_the_state(spec: GraphSpec, seed: int) -> None:
    stacked = random_stacked(spec, 2, seed)
    element = SymmetryGroup(spec).sample(torch.Generator().manual_seed(seed))
    graph = NeuralGraph.from_stacked(spec, stacked)
    moved = NeuralGraph.from_stacked(spec, element.act_stacked(stacked))
    for name, tensor in element.act_graph(graph).edges.items():
        assert torch.equal(tensor, moved.edges[name])
    for name, tensor in element.act_graph(graph).nodes.items():
        assert torch.equal(tensor, moved.nodes[name])
        assert torch.equal(tensor, element.act_nodes(name, graph.nodes[name]))


def test_nested_axes_permute_within_their_parent() -> None:
    spec = grouped_spec()
    stacked = random_stacked(spec, 1, 0)
    groups, outs = torch.tensor([1, 0]), torch.tensor([[1, 0], [0, 1]])
    ins = torch.tensor([[2, 0, 1], [0, 1, 2]])
    moved = GroupElement(spec, {"group": groups, "out": outs, "in": ins}).act_stacked(stacked)
    old = stacked["weight"][0].reshape(2, 2, 3, 5)
    for g in range(2):
        for o in range(2):
            for i in range(3):
                expected = old[groups[g], outs[g, o], ins[g, i]]
                assert torch.equal(moved["weight"][0].reshape(2, 2, 3, 5)[g, o, i], expected)
    assert torch.equal(moved["scale"][0], stacked["scale"][0][groups])


def test_order_of_the_group() -> None:
    assert SymmetryGroup(chain_spec([2, 3, 4, 1])).log_order == pytest.approx(
        math.log(math.factorial(3) * math.factorial(4))
    )
    # two groups swapped, and in each an order of 3 inputs and of 2 outputs
    assert SymmetryGroup(grouped_spec()).log_order == pytest.approx(math.log(2 * 6**2 * 2**2))


def test_samples_differ_and_repeat() -> None:
    group = SymmetryGroup(chain_spec([2, 30, 1]))
    one, two = (group.sample(torch.Generator().manual_seed(s)).permutations["0"] for s in (1, 2))
    again = group.sample(torch.Generator().manual_seed(1)).permutations["0"]
    assert torch.equal(one, again)
    assert not torch.equal(one, two)


def test_bad_elements_are_refused() -> None:
    spec = chain_spec([2, 3, 1])
    with pytest.raises(SymmetryError, match="every index below 3 once"):
        GroupElement(spec, {"0": torch.tensor([0, 0, 1])})
    with pytest.raises(SymmetryError, match="kinds"):
        SymmetryGroup(spec).sample(torch.Generator(), kinds=("rotation",))
