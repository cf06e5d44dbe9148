"""Supernodes: exact on duplicates, equivariant, better the more there are."""

from __future__ import annotations

import pytest
import torch

from tests.graph.strategies import random_stacked
from weightspace.errors import ModelError
from weightspace.graph import GraphSpec, NeuralGraph, SymmetryGroup, chain_spec
from weightspace.models import FlatMLP, NGGNNLinear, Predictor, Requirements
from weightspace.models.supernode_error import supernode_error

SPEC = chain_spec([5, 24, 24, 5], activations="tanh")


def make(spec: GraphSpec = SPEC, *, supernodes: int = 0) -> Predictor:
    torch.manual_seed(0)
    trunk = NGGNNLinear(
        Requirements.of([spec]), width=8, layers=3, frequencies=4, supernodes=supernodes
    )
    return Predictor(trunk, outputs=3).double().eval()


def graph_of(stacked: dict[str, torch.Tensor]) -> NeuralGraph:
    return NeuralGraph.from_stacked(SPEC, stacked)


def of_duplicates(copies: int) -> dict[str, torch.Tensor]:
    """Every hidden neuron several times, in no order."""
    stacked = random_stacked(SPEC, 1, 0, torch.float64)
    mixed = [torch.randperm(24, generator=torch.Generator().manual_seed(i)) for i in (1, 2)]
    one, two = (torch.arange(24)[order] % (24 // copies) for order in mixed)
    return {
        "0.weight": stacked["0.weight"][:, one],
        "0.bias": stacked["0.bias"][:, one],
        "1.weight": stacked["1.weight"][:, two][:, :, one],
        "1.bias": stacked["1.bias"][:, two],
        "2.weight": stacked["2.weight"][:, :, two],
        "2.bias": stacked["2.bias"],
    }


@pytest.mark.parametrize("copies", [2, 4])
def test_exact_on_duplicates(copies: int) -> None:
    graph = graph_of(of_duplicates(copies))
    assert supernode_error(make(), graph, supernodes=24 // copies) < 1e-12
    assert supernode_error(make(), graph, supernodes=24 // copies - 2) > 1e-6


def test_error_falls_with_more_supernodes() -> None:
    graph = graph_of(random_stacked(SPEC, 1, 0, torch.float64))
    errors = [supernode_error(make(), graph, supernodes=count) for count in (2, 12, 22, 24)]
    assert errors[0] > errors[2] > errors[3] == 0.0
    assert errors[0] < 1.0


def test_invariant() -> None:
    graph = graph_of(random_stacked(SPEC, 1, 3, torch.float64))
    model = make(supernodes=9)
    moved = SymmetryGroup(SPEC).sample(torch.Generator().manual_seed(0)).act_graph(graph)
    torch.testing.assert_close(model(graph), model(moved))
    assert not torch.allclose(model(graph), make()(graph))


def test_gradients_against_finite_differences() -> None:
    stacked = random_stacked(SPEC, 1, 0, torch.float64)
    model = make(supernodes=7)
    weight = stacked["1.weight"].requires_grad_()
    (grad,) = torch.autograd.grad(model(graph_of(stacked)).sum(), weight)
    step = torch.zeros_like(weight)
    step[0, 3, 4] = 1e-6
    with torch.no_grad():
        after, before = (
            model(graph_of({**stacked, "1.weight": weight.detach() + s})).sum()
            for s in (step, -step)
        )
    torch.testing.assert_close(grad[0, 3, 4], (after - before) / 2e-6, rtol=1e-5, atol=1e-7)
    with torch.no_grad():
        torch.testing.assert_close(model(graph_of(stacked)), model(graph_of(stacked)))
    plain = model(graph_of({name: t.detach() for name, t in stacked.items()}))
    torch.testing.assert_close(plain, model(graph_of(stacked)), rtol=1e-10, atol=1e-10)


def test_what_is_refused() -> None:
    two = graph_of(random_stacked(SPEC, 2, 0, torch.float64))
    with pytest.raises(ModelError, match="one network at a time, found a batch of 2"):
        make(supernodes=4)(two)
    flat = Predictor(FlatMLP(Requirements.of([SPEC])), outputs=2).double()
    with pytest.raises(ModelError, match="ng-gnn-linear, found FlatMLP"):
        supernode_error(flat, two[:1], supernodes=4)
