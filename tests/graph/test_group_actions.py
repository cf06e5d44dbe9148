"""Actions on deep nests, broadcast values, tied names, further features; and what a check sees."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.graph.strategies import random_stacked
from tests.graph.test_neural_graph import grouped_spec
from weightspace import from_module
from weightspace.errors import SpecError
from weightspace.graph import (
    Axis,
    Factor,
    GraphSpec,
    GroupElement,
    NeuralGraph,
    NodeSet,
    Parameter,
    Piece,
    Span,
    SymmetryGroup,
    activation_identities,
    chain_spec,
)
from weightspace.graph.graph_symmetry import largest_change

SIZES = {"a": 2, "b": 3, "c": 4}


def nested_spec() -> GraphSpec:
    """Features ``c`` within heads ``b`` within groups ``a``, in several memory orders."""
    axes = (
        Axis("a", 2, "hidden"),
        Axis("b", 3, "hidden", within="a"),
        Axis("c", 4, "hidden", within="b"),
    )
    spans = {name: Span((Factor(size, name, "target"),)) for name, size in SIZES.items()}
    pieces = (
        Piece("outwards", tuple(spans[name] for name in "abc")),
        Piece("inwards", tuple(spans[name] for name in "cba")),
        Piece("mixed up", tuple(spans[name] for name in "bca")),
    )
    return GraphSpec(
        axes,
        (NodeSet("x", ("a", "b", "c"), "hidden", pieces=pieces),),
        (),
        (
            Parameter("outwards", (2, 3, 4)),
            Parameter("inwards", (4, 3, 2)),
            Parameter("mixed up", (3, 4, 2)),
        ),
    )


def test_three_levels_by_hand() -> None:
    spec = nested_spec()
    stacked = random_stacked(spec, 2, 0)
    group = SymmetryGroup(spec)
    element = group.sample(torch.Generator().manual_seed(0))
    p, q, r = (element.permutations[name] for name in "abc")
    assert (p.shape, q.shape, r.shape) == ((2,), (2, 3), (2, 3, 4))
    moved = element.act_stacked(stacked)
    for a, b, c in itertools.product(range(2), range(3), range(4)):
        # the order of the parents comes first: new places choose the children's orders
        old = (p[a], q[a, b], r[a, b, c])
        for name, order in (("outwards", "abc"), ("inwards", "cba"), ("mixed up", "bca")):
            new = dict(zip("abc", (a, b, c), strict=True))
            before = dict(zip("abc", old, strict=True))
            at = (slice(None), *(new[axis] for axis in order))
            expected = stacked[name][(slice(None), *(before[axis] for axis in order))]
            assert torch.equal(moved[name][at], expected), name
    expected = math.lgamma(3) + 2 * math.lgamma(4) + 6 * math.lgamma(5)
    assert group.log_order == pytest.approx(expected)


def test_values_shared_by_many_neurons_come_back_to_the_bit() -> None:
    middle = Piece("middle", (Span((Factor(3, "b", "target"),)),))
    spec = GraphSpec(
        tuple(Axis(name, size, "hidden") for name, size in (("a", 7), ("b", 3), ("c", 5))),
        (NodeSet("x", ("a", "b", "c"), "hidden", pieces=(middle,)),),
        (),
        (Parameter("middle", (3,)),),
    )
    stacked = random_stacked(spec, 200, 0)
    graph = NeuralGraph.from_stacked(spec, stacked)
    grid = graph.nodes["x"].reshape(200, 7, 3, 5)
    assert torch.equal(grid, stacked["middle"][:, None, :, None].expand(200, 7, 3, 5))
    assert torch.equal(graph.stacked_state()["middle"], stacked["middle"])


def test_values_that_no_longer_agree_are_averaged() -> None:
    spec = grouped_spec()
    graph = NeuralGraph.from_stacked(spec, random_stacked(spec, 1, 0))
    features = torch.tensor([1.0, 3.0, 5.0, 9.0]).reshape(1, 4, 1)
    edited = graph.with_features(nodes={**graph.nodes, "y": features})
    assert edited.stacked_state()["scale"].tolist() == [[2.0, 7.0]]


def test_ranges_within_a_factor_are_where_they_start() -> None:
    row = Span((Factor(2, "x", "target", start=1, extent=4),))
    spec = GraphSpec(
        (Axis("x", 2, "hidden"),),
        (NodeSet("x", ("x",), "hidden", pieces=(Piece("w", (row,)),)),),
        (),
        (Parameter("w", (4,)),),
    )
    graph = NeuralGraph.from_stacked(spec, {"w": torch.arange(4.0)[None]})
    assert graph.nodes["x"].flatten().tolist() == [1.0, 2.0]
    moved = GroupElement(spec, {"x": torch.tensor([1, 0])}).act_state({"w": torch.arange(4.0)})
    assert moved["w"].tolist() == [0.0, 2.0, 1.0, 3.0]
    with pytest.raises(SpecError, match="within 4"):
        Factor(2, "x", "target", start=3, extent=4)
    with pytest.raises(SpecError, match="feature"):
        Factor(2, None, "target")
    with pytest.raises(SpecError, match="feature"):
        Factor(2, "x", "feature")


def test_drawn_factors_are_signs_and_positive_scales() -> None:
    signs, scales = (
        SymmetryGroup(chain_spec([2, 40, 1], activations=name))
        .sample(torch.Generator().manual_seed(0), kinds=("sign", "scale"))
        .factors[f"0 {kind}"]
        for name, kind in (("tanh", "sign"), ("relu", "scale"))
    )
    assert signs.unique().tolist() == [-1.0, 1.0]
    assert bool((scales > 0).all())
    assert float(scales.log().std()) == pytest.approx(0.5, rel=0.3)


def test_inputs_and_outputs_have_no_factors() -> None:
    spec = chain_spec([2, 4, 3, 2], activations="relu")
    assert [rescaling.axis for rescaling in spec.rescalings] == ["0", "1"]
    rows = {
        (piece.parameter, weighing.rescaling, weighing.dimension, weighing.power)
        for piece in spec.pieces
        for weighing in piece.weighings
    }
    assert rows == {
        ("0.weight", "0 scale", 0, 1), ("0.bias", "0 scale", 0, 1), ("1.weight", "0 scale", 1, -1),
        ("1.weight", "1 scale", 0, 1), ("1.bias", "1 scale", 0, 1), ("2.weight", "1 scale", 1, -1),
    }  # fmt: skip


def test_further_node_features_move_with_their_neurons() -> None:
    spec = chain_spec([2, 5, 1])
    graph = NeuralGraph.from_stacked(spec, random_stacked(spec, 2, 0))
    seen = {n.name: torch.randn(2, spec.nodes_in(n.name), 3) for n in spec.node_sets}
    order = torch.tensor([4, 0, 3, 1, 2])
    moved = GroupElement(spec, {"0": order}).act_graph(graph.with_extra("probes", seen))
    assert torch.equal(moved.extra["probes"]["0"], seen["0"][:, order])
    assert torch.equal(moved.extra["probes"]["input"], seen["input"])


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)
        self.b.weight = self.a.weight
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.c(self.drop(F.relu(self.a(x))))
        return y + 0.0 * self.b.bias.sum()


def test_second_names_of_a_tensor_move_with_it() -> None:
    net, x = Tied(), torch.randn(3, 4)
    net.train()
    graph = from_module(net, x)
    element = graph.symmetry.sample()
    moved = element.act_state(graph.state_dict())
    assert not torch.equal(moved["a.weight"], net.a.weight)
    assert torch.equal(moved["a.weight"], moved["b.weight"])
    # a module that drops neurons at random is compared in evaluation mode, and left as it was
    assert graph.symmetry.act(element).symmetry.check(net, x).max_relative_change < 1e-5
    assert net.training
    assert net.drop.training


def test_a_check_sees_every_output_and_every_nan() -> None:
    one, two = torch.tensor([1.0, -4.0]), torch.tensor([2.0])
    assert largest_change([one, two], [one, two]) == 0
    assert largest_change([one, two], [one, two + 1]) == pytest.approx(0.5)
    assert largest_change([one], [one + 1]) == pytest.approx(0.25)
    assert largest_change([one], [torch.tensor([1.0, math.nan])]) == math.inf
    assert largest_change([torch.tensor([1.0, math.inf])], [torch.tensor([1.0, math.inf])]) == 0
    assert largest_change([torch.zeros(2)], [torch.full((2,), 1e-3)]) == pytest.approx(1e-3)


class Weighted(nn.Sequential):
    """The same tensors as a plain stack, but its neurons are told apart."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self[1](self[0](x) * torch.arange(1.0, 5.0))
        return y


def test_a_check_runs_the_module_with_the_moved_tensors() -> None:
    parts, x = (nn.Linear(3, 4), nn.Linear(4, 2)), torch.randn(3, 3)
    graph = from_module(nn.Sequential(*parts), x)
    assert graph.symmetry.check(nn.Sequential(*parts), x).max_relative_change < 1e-5
    assert graph.symmetry.check(Weighted(*parts), x).max_relative_change > 1e-2


def test_outputs_count_as_nodes_without_activation_and_have_own_positions() -> None:
    spec = chain_spec([2, 3, 4], activations="relu")
    assert activation_identities(spec)["1"] == 0
