"""NG-T and its form for size: their mathematics, symmetry, independence of batch-mates."""

from __future__ import annotations

import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.strategies import chains, random_stacked
from tests.models.relational_oracle import every_pair, neighbours, oracle
from tests.nn.batches import mixed_batch
from tests.nn.test_arrangement import Residual
from weightspace import from_module
from weightspace.graph import GraphSpec, MixedGraph, NeuralGraph, SymmetryGroup, chain_spec
from weightspace.models import (
    MODELS,
    NGT,
    Editor,
    NGTEdges,
    Predictor,
    Requirements,
    load_model,
    make_editor,
    make_model,
    save_model,
)

FORMS = [NGT, NGTEdges]
SMALL = {"width": 6, "pair_width": 4, "size": 8, "heads": 2, "layers": 3, "node_hidden": 5,
         "pair_hidden": 7, "frequencies": 4, "sigma": 0.5}  # fmt: skip
PAIRS = {NGT: every_pair, NGTEdges: neighbours}


def trunk_of(form: type[NGT], specs: list[GraphSpec], seed: int = 0, **options: int) -> NGT:
    torch.manual_seed(seed)
    trunk = form(Requirements.of(specs), **{**SMALL, **options})
    # biases that start at zero would hide a bias that is left out
    for name, parameter in trunk.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.3)
    return trunk


def make(form: type[NGT], *specs: GraphSpec, seed: int = 0, **options: int) -> Predictor:
    return Predictor(trunk_of(form, list(specs), seed, **options), outputs=3).double().eval()


def edit(form: type[NGT], *specs: GraphSpec) -> Editor:
    editor = Editor(trunk_of(form, list(specs))).double().eval()
    for scale in editor.scales:
        torch.nn.init.ones_(scale)
    return editor


def graph_of(spec: GraphSpec, networks: int, seed: int) -> NeuralGraph:
    return NeuralGraph.from_stacked(spec, random_stacked(spec, networks, seed, torch.float64))


def imported(networks: int = 2) -> NeuralGraph:
    """Networks with grouped and depthwise convolutions, norms, a residual and attention."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = from_module(Residual().eval(), torch.randn(1, 3, 6, 6)).to(torch.float64)
    rest = {name: torch.cat([tensor] * networks) for name, tensor in graph.left_out.items()}
    stacked = random_stacked(graph.spec, networks, 1, torch.float64)
    return NeuralGraph.from_stacked(graph.spec, {**stacked, **rest})


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=8, deadline=None)
@given(spec=chains(max_width=3, max_hidden=2), seed=st.integers(0, 99))
def test_against_the_oracle(form: type[NGT], spec: GraphSpec, seed: int) -> None:
    graph = graph_of(spec, 2, seed)
    model = make(form, spec, seed=seed)
    model.fit_normalisation(graph)
    model.double()
    torch.testing.assert_close(model(graph), oracle(model, graph, PAIRS[form]))


@pytest.mark.parametrize("form", FORMS)
def test_imported_modules_against_the_oracle(form: type[NGT]) -> None:
    graph = imported(1)
    model = make(form, graph.spec, layers=2)
    torch.testing.assert_close(model(graph), oracle(model, graph, PAIRS[form]))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("probes", [0, 3])
@settings(max_examples=8, deadline=None)
@given(spec=chains(max_width=6), seed=st.integers(0, 99))
def test_output_is_invariant(form: type[NGT], probes: int, spec: GraphSpec, seed: int) -> None:
    graph = graph_of(spec, 2, seed)
    model = make(form, spec, probes=probes)
    moved = SymmetryGroup(spec).sample(torch.Generator().manual_seed(seed)).act_graph(graph)
    torch.testing.assert_close(model(graph), model(moved))


@pytest.mark.parametrize("form", FORMS)
def test_imported_modules_keep_their_output(form: type[NGT]) -> None:
    graph = imported()
    model = make(form, graph.spec)
    element = SymmetryGroup(graph.spec).sample(torch.Generator().manual_seed(0))
    torch.testing.assert_close(model(graph), model(element.act_graph(graph)))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["chain", "imported"])
def test_states_and_edits_are_equivariant(form: type[NGT], kind: str) -> None:
    graph = imported() if kind == "imported" else graph_of(chain_spec([2, 5, 4, 1]), 2, 0)
    spec, editor = graph.spec, edit(form, graph.spec)
    element = SymmetryGroup(spec).sample(torch.Generator().manual_seed(3))
    moved = element.act_graph(graph)
    states = [editor.read(g) for g in (graph, moved)]
    one, two = (read.networks.arrangement.split(read.state.nodes) for read in states)
    for place, node_set in enumerate(spec.node_sets):
        torch.testing.assert_close(element.act_nodes(node_set.name, one[0, place]), two[0, place])
    edited, again = element.act_graph(editor(graph)), editor(moved)
    for name, tensor in edited.edges.items():
        torch.testing.assert_close(tensor, again.edges[name])
    for name, tensor in edited.nodes.items():
        torch.testing.assert_close(tensor, again.nodes[name])
    changed = [b.name for b in spec.blocks if b.pieces]
    assert all((edited.edges[name] != element.act_graph(graph).edges[name]).any()
               for name in changed)  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_permutation_outside_the_group_changes_the_output(form: type[NGT]) -> None:
    spec = chain_spec([2, 6, 6, 1], activations="tanh")
    stacked = random_stacked(spec, 1, 0, torch.float64)
    shuffled = {**stacked, "1.weight": stacked["1.weight"].flip(1)}
    model = make(form, spec)
    before, after = (model(NeuralGraph.from_stacked(spec, s)) for s in (stacked, shuffled))
    assert (before - after).abs().max() > 1e-6


@pytest.mark.parametrize("form", FORMS)
def test_batch_mates_do_not_matter(form: type[NGT]) -> None:
    graphs = mixed_batch(True).networks()
    specs = [graph.spec for graph in graphs]
    model = make(form, *specs, dropout=0.0).train()
    together = model(MixedGraph.of(graphs))
    for i, graph in enumerate(graphs):
        torch.testing.assert_close(model(graph)[0], together[i], rtol=1e-10, atol=1e-10)
    editor = edit(form, *specs)
    edited = editor(MixedGraph.of(graphs)).networks()
    for one, graph in zip(edited, graphs, strict=True):
        for name, tensor in editor(graph).edges.items():
            torch.testing.assert_close(one.edges[name], tensor, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_gradients_against_finite_differences(form: type[NGT]) -> None:
    spec = chain_spec([1, 2, 2, 1], activations="tanh")
    model = make(form, spec, probes=2)
    stacked = random_stacked(spec, 2, 0, torch.float64)
    names = list(stacked)

    def run(*tensors: torch.Tensor) -> torch.Tensor:
        return model(NeuralGraph.from_stacked(spec, dict(zip(names, tensors, strict=True))))

    inputs = [tensor.requires_grad_() for tensor in stacked.values()]
    assert torch.autograd.gradcheck(run, inputs, eps=1e-6, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_parameters_gradients_are_the_oracles(form: type[NGT]) -> None:
    spec = chain_spec([2, 3, 2, 1], activations="tanh")
    graph, model = graph_of(spec, 2, 0), make(form, spec)
    weights = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
    grads = [
        torch.autograd.grad((output @ weights).sum(), list(model.parameters()))
        for output in (model(graph), oracle(model, graph, PAIRS[form]))
    ]
    for (name, _), one, two in zip(model.named_parameters(), *grads, strict=True):
        torch.testing.assert_close(one, two, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("editing", [False, True])
def test_every_parameter_learns(form: type[NGT], editing: bool) -> None:
    spec = chain_spec([2, 4, 4, 1], activations="tanh")
    graph = graph_of(spec, 4, 0)
    if editing:
        model = edit(form, spec)
        edited = model(graph)
        loss = sum(t.square().sum() for t in (*edited.edges.values(), *edited.nodes.values()))
    else:
        model = make(form, spec, probes=3)
        loss = model(graph).square().sum()
    loss.backward()
    # has rows for functions that the spec lacks
    unused = {"trunk.nodes.identity.activation.weight"}
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert name in unused or parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize("form", FORMS)
def test_dropout_is_reproducible_and_off_in_evaluation(form: type[NGT]) -> None:
    spec = chain_spec([2, 4, 1])
    graph, model = graph_of(spec, 3, 0), make(form, spec, dropout=0.4).train()
    runs = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        runs.append(model(graph))
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])
    model.eval()
    assert torch.equal(model(graph), model(graph))


def test_published_size() -> None:
    spec = chain_spec([2, 32, 32, 1], activations="sine")
    model = make_model("ng-t", Requirements.of([spec]), outputs=10)
    # published: 377k, read off the official code
    assert 340_000 < model.parameter_count < 400_000


@pytest.mark.parametrize("name", ["ng-t", "ng-t-probes", "ng-t-edges"])
def test_saved_and_loaded(name: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    spec = chain_spec([2, 4, 1], activations="tanh")
    graph = graph_of(spec, 2, 0)
    assert name in MODELS
    for model in (
        make_model(name, Requirements.of([spec]), outputs=3, options={"layers": 2}),
        make_editor(name, Requirements.of([spec]), options={"layers": 2}),
    ):
        single = graph.to(torch.float32)
        save_model(tmp_path / "model.safetensors", model.eval(), name=name, task={})
        again = load_model(tmp_path / "model.safetensors").model
        for one, two in zip(model.state_dict().values(), again.state_dict().values(), strict=True):
            assert torch.equal(one, two)
        if isinstance(model, Predictor):
            assert torch.equal(model(single), again(single))
