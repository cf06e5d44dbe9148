"""Neural graphs: reading, the exact way back, bindings of every kind."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.graph.strategies import chains, random_stacked
from weightspace.errors import StateError
from weightspace.graph import (
    Axis,
    EdgeBlock,
    Factor,
    GraphSpec,
    NeuralGraph,
    NodeSet,
    Parameter,
    Piece,
    Span,
    chain_spec,
)


@given(chains(), st.integers(1, 3), st.integers(0, 99))
def test_round_trip_is_exact(spec: GraphSpec, networks: int, seed: int) -> None:
    stacked = random_stacked(spec, networks, seed)
    back = NeuralGraph.from_stacked(spec, stacked).stacked_state()
    assert back.keys() == stacked.keys()
    for name, tensor in stacked.items():
        assert torch.equal(back[name], tensor)


def test_weights_are_edges_and_biases_nodes() -> None:
    spec = chain_spec([2, 3, 1])
    stacked = random_stacked(spec, 4, 0)
    graph = NeuralGraph.from_stacked(spec, stacked)
    assert torch.equal(graph.edges["0.weight"][:, 0, :, :, 0], stacked["0.weight"])
    assert torch.equal(graph.nodes["0"][..., 0], stacked["0.bias"])
    assert graph.nodes["input"].shape == (4, 2, 0)


def test_states_and_stacked_agree() -> None:
    spec = chain_spec([2, 3, 1])
    stacked = random_stacked(spec, 2, 0)
    states = [{name: tensor[i] for name, tensor in stacked.items()} for i in range(2)]
    graph = NeuralGraph.from_states(spec, states)
    assert torch.equal(
        graph.edges["1.weight"], NeuralGraph.from_stacked(spec, stacked).edges["1.weight"]
    )
    assert torch.equal(graph.state_dict(1)["0.weight"], states[1]["0.weight"])
    assert torch.equal(graph[[1]].edges["0.weight"], graph.edges["0.weight"][1:])


def test_differentiable_in_the_tensors() -> None:
    spec = chain_spec([2, 3, 1])
    stacked = {k: v.requires_grad_() for k, v in random_stacked(spec, 2, 0).items()}
    NeuralGraph.from_stacked(spec, stacked).edges["0.weight"].sum().backward()
    assert torch.equal(stacked["0.weight"].grad, torch.ones(2, 3, 2))


def grouped_spec() -> GraphSpec:
    """A grouped convolution: 2 groups of 3 -> 2 channels with kernels of 5 positions."""
    axes = (
        Axis("group", 2, "hidden"),
        Axis("in", 3, "hidden", within="group"),
        Axis("out", 2, "hidden", within="group"),
    )
    weight = Piece(
        "weight",
        (
            Span((Factor(2, "group", "shared"), Factor(2, "out", "target"))),
            Span((Factor(3, "in", "source"),)),
            Span((Factor(5, None, "feature"),)),
        ),
    )
    scale = Piece("scale", (Span((Factor(2, "group", "target"),)),))
    return GraphSpec(
        axes,
        (
            NodeSet("x", ("group", "in"), "hidden"),
            NodeSet("y", ("group", "out"), "hidden", pieces=(scale,)),
        ),
        (EdgeBlock("weight", "x", "y", "grouped", ("group",), (weight,)),),
        (Parameter("weight", (4, 3, 5)), Parameter("scale", (2,))),
    )


def test_grouped_block() -> None:
    spec = grouped_spec()
    stacked = random_stacked(spec, 2, 0)
    graph = NeuralGraph.from_stacked(spec, stacked)
    assert graph.edges["weight"].shape == (2, 2, 2, 3, 5)
    assert torch.equal(graph.edges["weight"][:, 1, 0, 2], stacked["weight"][:, 2, 2])
    # one value a group is broadcast over the group's neurons, and comes back exactly
    assert torch.equal(graph.nodes["y"][:, :2, 0], stacked["scale"][:, :1].expand(2, 2))
    back = graph.stacked_state()
    assert all(torch.equal(back[name], stacked[name]) for name in stacked)


def test_concatenated_inputs_and_transposed_weights() -> None:
    axes = (Axis("a", 2, "hidden"), Axis("b", 3, "hidden"), Axis("y", 4, "hidden"))
    target = Span((Factor(4, "y", "target"),))
    first = Piece("w", (Span((Factor(2, "a", "source"),)), target))
    second = Piece("w", (Span((Factor(3, "b", "source"),), start=2), target))
    spec = GraphSpec(
        axes,
        tuple(NodeSet(axis.name, (axis.name,), "hidden") for axis in axes),
        (
            EdgeBlock("w[0:2]", "a", "y", pieces=(first,)),
            EdgeBlock("w[2:5]", "b", "y", pieces=(second,)),
        ),
        (Parameter("w", (5, 4)),),
    )
    stacked = random_stacked(spec, 2, 0)
    graph = NeuralGraph.from_stacked(spec, stacked)
    assert torch.equal(graph.edges["w[2:5]"][:, 0, :, :, 0], stacked["w"][:, 2:].transpose(1, 2))
    assert torch.equal(graph.stacked_state()["w"], stacked["w"])


def test_wrong_states_are_refused() -> None:
    spec = chain_spec([2, 3, 1])
    good = {name: tensor[0] for name, tensor in random_stacked(spec, 1, 0).items()}
    with pytest.raises(StateError, match=r"0\.bias"):
        NeuralGraph.from_states(spec, [{k: v for k, v in good.items() if k != "0.bias"}])
    with pytest.raises(StateError, match=r"shape \(3, 2\), found shape \(2, 3\)"):
        NeuralGraph.from_states(spec, [{**good, "0.weight": good["0.weight"].T}])
    with pytest.raises(StateError, match="also extra"):
        NeuralGraph.from_states(spec, [{**good, "extra": torch.zeros(1)}])
    with pytest.raises(StateError, match="at least one"):
        NeuralGraph.from_states(spec, [])
    mixed = {
        name: torch.stack([tensor] * (2 if name == "0.bias" else 3))
        for name, tensor in good.items()
    }
    with pytest.raises(StateError, match="one batch size"):
        NeuralGraph.from_stacked(spec, mixed)
