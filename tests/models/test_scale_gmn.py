"""ScaleGMN: its mathematics, its symmetries in both directions, its independence of batch-mates."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.graph.strategies import chains, random_stacked
from tests.models.scale_oracle import oracle
from tests.models.scaled_modules import INPUTS, imported
from tests.nn.batches import mixed_batch
from tests.nn.test_arrangement import batches
from weightspace.errors import ModelError
from weightspace.graph import (
    Activation,
    GraphSpec,
    GroupElement,
    MixedGraph,
    NeuralGraph,
    SymmetryGroup,
    chain_spec,
)
from weightspace.models import (
    Editor,
    Predictor,
    Requirements,
    load_model,
    make_editor,
    make_model,
    save_model,
)
from weightspace.models.scale_gmn import ScaleGMN
from weightspace.models.trunk import Prepared

KINDS = ("permutation", "sign", "scale")


def trunk(*specs: GraphSpec, seed: int = 0, width: int = 8, both: bool = True) -> ScaleGMN:
    torch.manual_seed(seed)
    return ScaleGMN(Requirements.of(specs), width=width, layers=3, bidirectional=both)


def predictor(graph: NeuralGraph | MixedGraph, **options: int | bool) -> Predictor:
    model = Predictor(trunk(*MixedGraph.of(graph).specs, **options), outputs=3).double().eval()
    model.fit_normalisation(graph)
    return model.double()


def editor(graph: NeuralGraph, **options: int | bool) -> Editor:
    model = Editor(trunk(graph.spec, **options)).double().eval()
    model.fit_normalisation(graph)
    return model.double()


def graph_of(spec: GraphSpec, networks: int, seed: int) -> NeuralGraph:
    return NeuralGraph.from_stacked(spec, random_stacked(spec, networks, seed, torch.float64))


def element_of(spec: GraphSpec, seed: int, kinds: tuple[str, ...] = KINDS) -> GroupElement:
    return SymmetryGroup(spec).sample(torch.Generator().manual_seed(seed), kinds=kinds)


def unprepared(model: Predictor | Editor) -> None:
    """Let networks be read as they are, not in canonical form."""
    model.trunk.prepare = lambda batch: Prepared(batch, lambda x: x)  # type: ignore[method-assign]


def check_predictor(graph: NeuralGraph, seed: int, **options: int | bool) -> None:
    model = predictor(graph, **options)
    moved = element_of(graph.spec, seed).act_graph(graph)
    torch.testing.assert_close(model(graph), model(moved), rtol=1e-9, atol=1e-9)


def check_editor(graph: NeuralGraph, seed: int, **options: int | bool) -> None:
    model, element = editor(graph, **options), element_of(graph.spec, seed)
    edited = model(graph)
    one, two = element.act_graph(edited), model(element.act_graph(graph))
    for name, tensor in one.stacked_state().items():
        torch.testing.assert_close(two.stacked_state()[name], tensor, rtol=1e-9, atol=1e-9)
    changed = [not torch.equal(edited.edges[b.name], graph.edges[b.name]) for b in graph.spec.blocks
               if b.pieces]  # fmt: skip
    assert all(changed)


@settings(max_examples=12, deadline=None)
@given(chains(max_width=3, max_hidden=2), st.booleans(), st.integers(0, 99))
def test_against_the_oracle(spec: GraphSpec, both: bool, seed: int) -> None:
    graph = graph_of(spec, 2, seed)
    model = predictor(graph, seed=seed, both=both)
    canonical = model.trunk.prepare(MixedGraph.of(graph)).batch.parts[0]
    torch.testing.assert_close(model(graph), oracle(model, canonical), rtol=1e-9, atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(chains(), st.booleans(), st.integers(0, 99))
def test_output_is_invariant(spec: GraphSpec, both: bool, seed: int) -> None:
    check_predictor(graph_of(spec, 2, seed), seed, both=both)


@settings(max_examples=15, deadline=None)
@given(chains(), st.booleans(), st.integers(0, 99))
def test_edits_are_equivariant(spec: GraphSpec, both: bool, seed: int) -> None:
    check_editor(graph_of(spec, 2, seed), seed, both=both)


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("kind", INPUTS)
def test_imported_modules(kind: type[nn.Module], both: bool) -> None:
    graph = imported(kind)
    assert graph.spec.rescalings
    for seed in range(3):
        check_predictor(graph, seed, both=both)
        check_editor(graph, seed, both=both)


@settings(max_examples=25, deadline=None)
@given(chains(), st.integers(0, 99))
def test_nets_themselves_are_equivariant(spec: GraphSpec, seed: int) -> None:
    """Without canonical forms: node states carry ``q_i``, forward messages need no more."""
    graph = graph_of(spec, 2, seed)
    model = predictor(graph, both=False)
    unprepared(model)
    element = element_of(spec, seed)
    one, two = model.read(graph), model.read(element.act_graph(graph))
    cut, moved = (r.networks.arrangement.split(r.state.nodes) for r in (one, two))
    factors = {
        weighing.rescaling: (node_set.axes[0], element.factors[weighing.rescaling])
        for node_set in spec.node_sets
        for block in spec.blocks
        if block.target == node_set.name
        for weighing in block.pieces[0].weighings
        if weighing.power == 1
    }
    for place, node_set in enumerate(spec.node_sets):
        expected = element.act_nodes(node_set.name, cut[0, place])
        for axis, factor in factors.values():
            if axis == node_set.axes[0]:
                expected = expected * factor[:, None]
        torch.testing.assert_close(moved[0, place], expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(model(graph), model(element.act_graph(graph)), rtol=1e-9, atol=1e-9)


def test_signs_need_no_canonical_form_in_either_direction() -> None:
    spec = chain_spec([2, 5, 4, 1], activations="tanh")
    graph = graph_of(spec, 3, 0)
    model, edits = predictor(graph), editor(graph)
    unprepared(model)
    unprepared(edits)
    element = element_of(spec, 0)
    moved = element.act_graph(graph)
    torch.testing.assert_close(model(graph), model(moved), rtol=1e-9, atol=1e-9)
    one, two = element.act_graph(edits(graph)), edits(moved)
    for name in one.edges:
        torch.testing.assert_close(one.edges[name], two.edges[name], rtol=1e-9, atol=1e-9)


WRONG: dict[str, tuple[str, Callable[[dict[str, Tensor]], dict[str, Tensor]]]] = {
    "sign of a ReLU": ("relu", lambda s: {**s, "0.weight": -s["0.weight"],
                                          "0.bias": -s["0.bias"], "1.weight": -s["1.weight"]}),
    "scale of a tanh": ("tanh", lambda s: {**s, "0.weight": 2 * s["0.weight"],
                                           "0.bias": 2 * s["0.bias"],
                                           "1.weight": s["1.weight"] / 2}),
    "scale in, not out": ("relu", lambda s: {**s, "0.weight": 2 * s["0.weight"],
                                             "0.bias": 2 * s["0.bias"]}),
    "scale of a bias": ("relu", lambda s: {**s, "0.bias": 2 * s["0.bias"]}),
    "sign of a gelu": ("gelu", lambda s: {**s, "0.weight": -s["0.weight"],
                                          "0.bias": -s["0.bias"], "1.weight": -s["1.weight"]}),
    "order of columns": ("tanh", lambda s: {**s, "1.weight": s["1.weight"].flip(2)}),
    "sign of an output": ("tanh", lambda s: {**s, "2.weight": -s["2.weight"],
                                             "2.bias": -s["2.bias"]}),
}  # fmt: skip


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("case", WRONG)
def test_changes_outside_the_group_change_the_output(case: str, both: bool) -> None:
    activation, change = WRONG[case]
    spec = chain_spec([2, 6, 5, 1], activations=activation)
    stacked = random_stacked(spec, 1, 0, torch.float64)
    model = predictor(NeuralGraph.from_stacked(spec, stacked), both=both)
    before, after = (model(NeuralGraph.from_stacked(spec, s)) for s in (stacked, change(stacked)))
    assert (before - after).abs().max() > 1e-5


def test_phases_of_sines_do_not_matter() -> None:
    spec = chain_spec([2, 5, 4, 1], activations=Activation.of("sine", w0=30.0))
    stacked = random_stacked(spec, 3, 0, torch.float64)
    turns = torch.tensor([1.0, -1.0, 2.0, 3.0, 0.0], dtype=torch.float64)
    moved = {
        **stacked,
        "0.bias": stacked["0.bias"] + turns * torch.pi / 30,
        "1.weight": stacked["1.weight"] * torch.where(turns % 2 == 1, -1.0, 1.0),
    }
    graph, other = (NeuralGraph.from_stacked(spec, s) for s in (stacked, moved))
    model = predictor(graph)
    torch.testing.assert_close(model(graph), model(other), rtol=1e-9, atol=1e-9)
    edits = editor(graph)
    one, two = edits(graph), edits(other)
    change = one.nodes["0"] - graph.nodes["0"]
    torch.testing.assert_close(two.nodes["0"] - other.nodes["0"], change, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("both", [True, False])
def test_batch_mates_do_not_matter(both: bool) -> None:
    for batch in [mixed_batch(False), mixed_batch(True)]:
        model = predictor(batch, both=both).train()
        together = model(batch)
        for i, single in enumerate(batch.networks()):
            torch.testing.assert_close(model(single)[0], together[i], rtol=1e-10, atol=1e-10)


def test_imported_networks_of_every_kind_of_block_in_a_batch() -> None:
    for batch in batches()[2:]:
        model = predictor(batch)
        together = model(batch)
        for i, single in enumerate(batch.networks()):
            torch.testing.assert_close(model(single)[0], together[i], rtol=1e-10, atol=1e-10)
        graph = batch.parts[0]
        check_predictor(graph, 0)
        check_editor(graph, 0)


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("activation", ["tanh", "relu", "none", "gelu"])
def test_gradients_against_finite_differences(activation: str, both: bool) -> None:
    spec = chain_spec([1, 2, 2, 1], activations=activation)
    model = predictor(graph_of(spec, 2, 1), width=3, both=both)
    stacked = random_stacked(spec, 2, 0, torch.float64)
    names = list(stacked)

    def run(*tensors: Tensor) -> Tensor:
        return model(NeuralGraph.from_stacked(spec, dict(zip(names, tensors, strict=True))))

    inputs = [tensor.requires_grad_() for tensor in stacked.values()]
    assert torch.autograd.gradcheck(run, inputs, eps=1e-6, atol=1e-5)


@pytest.mark.parametrize("activation", ["tanh", "relu", "none", "gelu"])
@pytest.mark.parametrize("zeros", ["all", "biases", "a layer", "a neuron"])
def test_zeros_give_finite_values_and_gradients(activation: str, zeros: str) -> None:
    spec = chain_spec([2, 4, 3, 1], activations=activation)
    stacked = random_stacked(spec, 2, 0)
    for name, tensor in stacked.items():
        if zeros == "all" or (zeros == "biases" and "bias" in name):
            tensor.zero_()
        elif name.startswith("0"):
            tensor[:, : 1 if zeros == "a neuron" else None].mul_(float(zeros == "biases"))
        tensor.requires_grad_()
    graph = NeuralGraph.from_stacked(spec, stacked)
    torch.manual_seed(0)
    for model in (Predictor(trunk(spec), outputs=2), Editor(trunk(spec))):
        result = model(graph)
        values = result if isinstance(result, Tensor) else torch.cat(
            [tensor.flatten() for tensor in result.stacked_state().values()]
        )  # fmt: skip
        assert values.isfinite().all()
        values.square().sum().backward(retain_graph=True)
        for tensor in [*stacked.values(), *model.parameters()]:
            assert tensor.grad is None or tensor.grad.isfinite().all()


def test_every_parameter_learns() -> None:
    spec = chain_spec([2, 4, 4, 1], activations=["tanh", "relu"])
    graph = graph_of(spec, 4, 0)
    unused = ("identity.activation.weight",)  # has rows for functions that the spec lacks
    for model in (predictor(graph), editor(graph)):
        result = model(graph)
        values = [result] if isinstance(result, Tensor) else result.stacked_state().values()
        sum((value.square().sum() for value in values), torch.zeros(())).backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, name
            assert name.endswith(unused) or parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize("layers", [1, 2])
def test_few_layers(layers: int) -> None:
    spec = chain_spec([2, 4, 1], activations="tanh")
    graph = graph_of(spec, 2, 0)
    for model in (
        Predictor(ScaleGMN(Requirements.of([spec]), width=4, layers=layers), outputs=1),
        Editor(ScaleGMN(Requirements.of([spec]), width=4, layers=layers)),
    ):
        model.double()(graph)
    with pytest.raises(ModelError, match="a whole number from 1"):
        ScaleGMN(Requirements.of([spec]), layers=0)


def test_edits_of_nothing_come_back_to_the_bit() -> None:
    for activation in ("relu", "tanh", "none", Activation.of("sine", w0=30.0)):
        spec = chain_spec([2, 5, 4, 1], activations=activation)
        graph = NeuralGraph.from_stacked(spec, random_stacked(spec, 3, 0))
        prepared = trunk(spec).prepare(MixedGraph.of(graph))
        back = prepared.restore(prepared.batch).parts[0].stacked_state()
        for name, tensor in graph.stacked_state().items():
            assert torch.equal(back[name], tensor), (activation, name)


def test_saved_and_loaded(tmp_path) -> None:  # type: ignore[no-untyped-def]
    spec = chain_spec([2, 4, 3, 1], activations=["relu", "tanh"])
    graph = NeuralGraph.from_stacked(spec, random_stacked(spec, 3, 0))
    options = {"width": 8, "layers": 2, "bidirectional": False}
    for number, model in enumerate(
        (
            make_model("scale-gmn", Requirements.of([spec]), outputs=3, options=options),
            make_editor("scale-gmn", Requirements.of([spec]), options=options),
        )
    ):
        model.fit_normalisation(graph)
        model.eval()
        path = tmp_path / f"{number}.safetensors"
        save_model(path, model, name="scale-gmn", task={})
        one, two = model(graph), load_model(path).model(graph)
        if isinstance(one, Tensor):
            torch.testing.assert_close(one, two, rtol=0, atol=0)
        else:
            for name, tensor in one.stacked_state().items():
                torch.testing.assert_close(two.stacked_state()[name], tensor, rtol=0, atol=0)


def test_published_size() -> None:
    spec = chain_spec([2, 32, 32, 1], activations="sine")
    model = Predictor(ScaleGMN(Requirements.of([spec])), outputs=10)
    # published: about 1.8 million, of which ours has no biases on carried states
    assert 1_600_000 < model.parameter_count < 1_900_000
