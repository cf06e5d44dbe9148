"""NG-GNN: its mathematics, its symmetry, its independence of batch-mates."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.strategies import chains, random_stacked
from tests.models.oracle import oracle
from weightspace.errors import ModelError
from weightspace.graph import GraphSpec, MixedGraph, NeuralGraph, SymmetryGroup, chain_spec
from weightspace.models import NGGNN, Predictor, Requirements
from weightspace.nn import Networks


def make(spec: GraphSpec, *, probes: int = 0, seed: int = 0, width: int = 8) -> Predictor:
    torch.manual_seed(seed)
    trunk = NGGNN(
        Requirements.of([spec]), width=width, layers=3, probes=probes, frequencies=4, sigma=0.5
    )
    return Predictor(trunk, outputs=3).double().eval()


def graph_of(spec: GraphSpec, networks: int, seed: int) -> NeuralGraph:
    return NeuralGraph.from_stacked(spec, random_stacked(spec, networks, seed, torch.float64))


def probe_states(model: Predictor, graph: NeuralGraph) -> list[torch.Tensor]:
    batch = MixedGraph.of(graph)
    networks = Networks(batch, batch)
    states = networks.arrangement.split(model.trunk.probes(networks))
    return [states[0, place] for place in range(len(graph.spec.node_sets))]


@settings(max_examples=15, deadline=None)
@given(chains(max_width=4, max_hidden=2), st.booleans(), st.integers(0, 99))
def test_against_the_oracle(spec: GraphSpec, probed: bool, seed: int) -> None:
    graph = graph_of(spec, 2, seed)
    model = make(spec, probes=3 if probed else 0, seed=seed)
    model.fit_normalisation(graph)
    model.double()
    values = probe_states(model, graph) if model.trunk.probes is not None else None
    torch.testing.assert_close(model(graph), oracle(model, graph, values))


@settings(max_examples=25, deadline=None)
@given(chains(max_width=8), st.booleans(), st.integers(0, 99))
def test_output_is_invariant(spec: GraphSpec, probed: bool, seed: int) -> None:
    graph = graph_of(spec, 2, seed)
    model = make(spec, probes=3 if probed else 0)
    moved = SymmetryGroup(spec).sample(torch.Generator().manual_seed(seed)).act_graph(graph)
    torch.testing.assert_close(model(graph), model(moved))


@settings(max_examples=25, deadline=None)
@given(chains(max_width=8), st.integers(0, 99))
def test_node_states_are_equivariant(spec: GraphSpec, seed: int) -> None:
    graph = graph_of(spec, 2, seed)
    model = make(spec)
    element = SymmetryGroup(spec).sample(torch.Generator().manual_seed(seed))

    def states(g: NeuralGraph) -> list[torch.Tensor]:
        read = model.read(g)
        cut = read.networks.arrangement.split(read.state.nodes)
        return [cut[0, place] for place in range(len(spec.node_sets))]

    for node_set, one, two in zip(
        spec.node_sets, states(graph), states(element.act_graph(graph)), strict=True
    ):
        torch.testing.assert_close(element.act_nodes(node_set.name, one), two)


def test_a_permutation_outside_the_group_changes_the_output() -> None:
    spec = chain_spec([2, 6, 6, 1], activations="tanh")
    stacked = random_stacked(spec, 1, 0, torch.float64)
    shuffled = {**stacked, "1.weight": stacked["1.weight"].flip(1)}
    model = make(spec)
    before, after = (model(NeuralGraph.from_stacked(spec, s)) for s in (stacked, shuffled))
    assert (before - after).abs().max() > 1e-6


@pytest.mark.parametrize("probes", [0, 3])
def test_batch_mates_do_not_matter(probes: int) -> None:
    spec = chain_spec([2, 5, 4, 1], activations="tanh")
    graph = graph_of(spec, 6, 0)
    model = make(spec, probes=probes)
    model.fit_normalisation(graph_of(spec, 20, 1))
    model.double()
    together = model(graph)
    for i in range(6):
        torch.testing.assert_close(model(graph[[i]])[0], together[i])
    # training mode too, once dropout is off: no statistics are shared over the batch
    model.train()
    for layer in model.trunk.layers:
        layer.dropout = 0.0
    torch.testing.assert_close(model(graph[[2]])[0], model(graph)[2])


def test_gradients_against_finite_differences() -> None:
    spec = chain_spec([1, 2, 2, 1], activations="tanh")
    model = make(spec, width=3, probes=2)
    stacked = random_stacked(spec, 2, 0, torch.float64)
    names = list(stacked)

    def run(*tensors: torch.Tensor) -> torch.Tensor:
        return model(NeuralGraph.from_stacked(spec, dict(zip(names, tensors, strict=True))))

    inputs = [tensor.requires_grad_() for tensor in stacked.values()]
    assert torch.autograd.gradcheck(run, inputs, eps=1e-6, atol=1e-5)


def test_every_parameter_learns() -> None:
    spec = chain_spec([2, 4, 4, 1], activations="tanh")
    model = make(spec, probes=3)
    model(graph_of(spec, 4, 0)).square().sum().backward()
    unused = {
        "trunk.nodes.identity.activation.weight"
    }  # has rows for functions that the spec lacks
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert name in unused or parameter.grad.abs().max() > 0, name


def test_canonical_signs_make_it_invariant_to_flips() -> None:
    spec = chain_spec([2, 5, 4, 1], activations="tanh")
    graph = graph_of(spec, 3, 0)
    for canonical in (True, False):
        torch.manual_seed(0)
        trunk = NGGNN(Requirements.of([spec]), width=8, probes=3)
        model = Predictor(trunk, outputs=3, canonical=canonical)
        model.double().eval()
        element = SymmetryGroup(spec).sample(torch.Generator().manual_seed(0), kinds=("sign",))
        change = (model(graph) - model(element.act_graph(graph))).abs().max()
        assert (change < 1e-9) == canonical


def test_published_size() -> None:
    spec = chain_spec([2, 32, 32, 1], activations="sine")
    model = Predictor(NGGNN(Requirements.of([spec])), outputs=10)
    # published: 92k, read off the official code; ours adds 64 rows of activation embeddings
    assert 90_000 < model.parameter_count < 97_000


def test_networks_that_do_not_fit_are_refused() -> None:
    model = make(chain_spec([2, 4, 1]))
    wide_input = chain_spec([3, 4, 1])
    with pytest.raises(ModelError, match="2 input neurons, found 3"):
        model(graph_of(wide_input, 1, 0))
    deep = chain_spec([2, 4, 4, 1])
    with pytest.raises(ModelError, match="at most 1 hidden layers"):
        model(graph_of(deep, 1, 0))
    with pytest.raises(ModelError, match="the same inputs and outputs"):
        Requirements.of([chain_spec([2, 4, 1]), wide_input])


def test_one_model_reads_several_architectures() -> None:
    specs = [chain_spec([2, 4, 1]), chain_spec([2, 7, 3, 1])]
    torch.manual_seed(0)
    model = Predictor(NGGNN(Requirements.of(specs), width=8), outputs=3).double().eval()
    for spec in specs:
        graph = graph_of(spec, 2, 0)
        torch.testing.assert_close(model(graph), oracle(model, graph))


def test_probes_need_networks_that_can_be_run() -> None:
    from tests.nn.test_arrangement import Residual
    from weightspace import from_module

    graph = from_module(Residual().eval(), torch.randn(1, 3, 6, 6))
    trunk = NGGNN(Requirements.of([graph.spec]), width=4, layers=2, probes=4)
    with pytest.raises(ModelError, match=r"(?s)block .*ng-gnn"):
        Predictor(trunk, outputs=2)(graph)
