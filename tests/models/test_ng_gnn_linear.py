"""NG-GNN with linear messages: exact messages edge by edge, symmetry, executors, editing."""

from __future__ import annotations

import functools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.graph.strategies import chains, random_stacked
from tests.models.linear_oracle import linear_oracle
from tests.nn.batches import mixed_batch
from tests.nn.test_arrangement import Residual
from weightspace import from_module
from weightspace.graph import GraphSpec, MixedGraph, NeuralGraph, SymmetryGroup, chain_spec
from weightspace.models import Editor, NGGNNLinear, Predictor, Requirements
from weightspace.nn import raw_blocks

EXACT = {"rtol": 1e-10, "atol": 1e-10}


def make(*specs: GraphSpec, seed: int = 0, kind: type = Predictor, layers: int = 3) -> nn.Module:
    torch.manual_seed(seed)
    trunk = NGGNNLinear(Requirements.of(specs), width=8, layers=layers, frequencies=4, sigma=0.5)
    made = Predictor(trunk, outputs=3) if kind is Predictor else Editor(trunk)
    return made.double().eval()


def graph_of(spec: GraphSpec, networks: int, seed: int) -> NeuralGraph:
    return NeuralGraph.from_stacked(spec, random_stacked(spec, networks, seed, torch.float64))


@functools.cache
def residual() -> NeuralGraph:
    torch.manual_seed(0)
    graph = from_module(Residual().eval(), torch.randn(1, 3, 6, 6)).to(torch.float64)
    return MixedGraph.of([graph, graph.map(lambda t: t * 1.5 + 0.1)]).parts[0]


@settings(max_examples=8, deadline=None)
@given(chains(max_width=6, max_hidden=2), st.integers(0, 99))
def test_equals_exact_messages_on_chains(spec: GraphSpec, seed: int) -> None:
    graph = graph_of(spec, 2, seed)
    model = make(spec, seed=seed)
    model.fit_normalisation(graph)
    model.double()
    torch.testing.assert_close(model(graph), linear_oracle(model, graph), **EXACT)


@pytest.mark.parametrize("limit", [1, 1 << 19])
def test_equals_exact_messages_on_a_module(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_blocks, "PIECE_VALUES", limit)
    graph = residual()
    model = make(graph.spec)
    model.fit_normalisation(graph)
    model.double()
    torch.testing.assert_close(model(graph), linear_oracle(model, graph), **EXACT)


@pytest.mark.parametrize("joined", [0, 1 << 20])
def test_same_numbers_however_batched(joined: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_blocks, "JOINED_VALUES", joined)
    batch = mixed_batch(True)
    model = make(*batch.specs)
    model.fit_normalisation(batch)
    model.double()
    together = model(batch)
    for i, graph in enumerate(batch.networks()):
        torch.testing.assert_close(model(graph)[0], together[i], **EXACT)
    model.train()
    for layer in model.trunk.layers:
        layer.dropout = 0.0
    torch.testing.assert_close(model(batch.networks()[3])[0], model(batch)[3], **EXACT)


@settings(max_examples=12, deadline=None)
@given(chains(max_width=8), st.integers(0, 99))
def test_symmetry_on_chains(spec: GraphSpec, seed: int) -> None:
    check_symmetry(graph_of(spec, 2, seed), seed)


@pytest.mark.parametrize("seed", range(2))
def test_symmetry_on_a_module(seed: int) -> None:
    check_symmetry(residual(), seed)


def check_symmetry(graph: NeuralGraph, seed: int) -> None:
    spec = graph.spec
    model, editor = make(spec), make(spec, kind=Editor)
    element = SymmetryGroup(spec).sample(torch.Generator().manual_seed(seed))
    moved = element.act_graph(graph)
    torch.testing.assert_close(model(graph), model(moved))
    one, two = (
        r.networks.arrangement.split(r.state.nodes) for r in (model.read(graph), model.read(moved))
    )
    for place, node_set in enumerate(spec.node_sets):
        expected = element.act_nodes(node_set.name, one[0, place])
        torch.testing.assert_close(two[0, place], expected)
    ours, theirs = element.act_graph(editor(graph)), editor(moved)
    for name, values in theirs.stacked_state().items():
        torch.testing.assert_close(ours.stacked_state()[name], values)


def test_a_permutation_outside_the_group_changes_the_output() -> None:
    spec = chain_spec([2, 6, 6, 1], activations="tanh")
    stacked = random_stacked(spec, 1, 0, torch.float64)
    shuffled = {**stacked, "1.weight": stacked["1.weight"].flip(1)}
    model = make(spec)
    before, after = (model(NeuralGraph.from_stacked(spec, s)) for s in (stacked, shuffled))
    assert (before - after).abs().max() > 1e-6


def test_gradients_against_finite_differences() -> None:
    spec = chain_spec([1, 5, 5, 1], activations="tanh")
    model = make(spec, layers=2)
    stacked = random_stacked(spec, 2, 0, torch.float64)
    names = list(stacked)

    def run(*tensors: torch.Tensor) -> torch.Tensor:
        return model(NeuralGraph.from_stacked(spec, dict(zip(names, tensors, strict=True))))

    inputs = [tensor.requires_grad_() for tensor in stacked.values()]
    assert torch.autograd.gradcheck(run, inputs, eps=1e-6, atol=1e-5)


def test_every_parameter_learns() -> None:
    spec = chain_spec([2, 6, 6, 1], activations="tanh")
    model = make(spec)
    model(graph_of(spec, 4, 0)).square().sum().backward()
    # output nodes of a chain receive along connections only
    unused = {f"trunk.layers.2.messages.against.{what}" for what in ("weight", "bias")}
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert name in unused or parameter.grad.abs().max() > 0, name


def test_edits_start_small_and_keep_the_kind() -> None:
    batch = mixed_batch(True)
    editor = make(*batch.specs, kind=Editor)
    edited = editor(batch)
    assert isinstance(edited, MixedGraph)
    for old, new in zip(batch.networks(), edited.networks(), strict=True):
        for name, values in new.edges.items():
            change = (values - old.edges[name]).abs()
            assert 0 < change.max() < 0.5
