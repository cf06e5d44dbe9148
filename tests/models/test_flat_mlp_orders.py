"""The flat baselines that deal with the order of neurons: augmentation and alignment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.graph.strategies import random_stacked
from tests.graph.test_reordering import residual
from weightspace.errors import ModelError
from weightspace.graph import NeuralGraph, Reordering, SymmetryGroup, chain_spec
from weightspace.models import (
    Editor,
    FlatMLP,
    FlatMLPAligned,
    FlatMLPAugmented,
    Predictor,
    Requirements,
    Trunk,
    load_model,
    save_model,
)

SPEC = chain_spec([2, 6, 5, 1], activations="tanh")
BOTH = pytest.mark.parametrize("family", [FlatMLPAugmented, FlatMLPAligned])


def graph_of(networks: int, seed: int) -> NeuralGraph:
    return NeuralGraph.from_stacked(SPEC, random_stacked(SPEC, networks, seed, torch.float64))


def fitted(model: Predictor | Editor, graph: NeuralGraph) -> Predictor | Editor:
    model.double().eval().fit_normalisation(graph)
    return model.double()


def make(family: Callable[..., Trunk], **options: float) -> Predictor:
    torch.manual_seed(0)
    trunk = family(Requirements.of([SPEC]), **{"width": 8, "dropout": 0.0, **options})
    return fitted(Predictor(trunk, outputs=3), graph_of(20, 1))


def permuted(graph: NeuralGraph, seed: int = 0) -> NeuralGraph:
    generator = torch.Generator().manual_seed(seed)
    return Reordering.sample(graph.spec, graph.batch_size, generator=generator).act_graph(graph)


def test_augmented_reads_as_the_flat_mlp_does_in_evaluation() -> None:
    ours, plain, graph = make(FlatMLPAugmented), make(FlatMLP), graph_of(4, 0)
    assert torch.equal(ours(graph), plain(graph))
    assert not torch.allclose(ours(graph), ours(permuted(graph)))


def test_augmented_reads_every_network_in_an_order_of_its_own_in_training() -> None:
    ours, plain = make(FlatMLPAugmented).train(), make(FlatMLP)
    graph = graph_of(1, 0)[[0, 0, 0]]
    torch.manual_seed(3)
    found = ours(graph)
    torch.manual_seed(3)
    drawn = Reordering.sample(SPEC, 3)
    torch.testing.assert_close(found, plain(drawn.act_graph(graph)))
    assert not torch.allclose(found[0], found[1])


def test_aligned_is_the_flat_mlp_on_aligned_networks() -> None:
    ours, graph = make(FlatMLPAligned), graph_of(4, 0)
    reference = graph_of(20, 1).state_dict(0)
    for name, tensor in ours.trunk.reference.items():
        torch.testing.assert_close(tensor, reference[name])
    prepared = ours.trunk.prepare(graph_mixed(graph)).batch.parts[0]
    plain = make(FlatMLP)
    plain.load_state_dict(ours.state_dict(), strict=False)
    torch.testing.assert_close(ours(graph), plain(prepared))
    one, two = (distance(g, reference) for g in (graph, prepared))
    assert (two < one).all()


def graph_mixed(graph: NeuralGraph):  # type: ignore[no-untyped-def]
    from weightspace.graph import MixedGraph

    return MixedGraph.of(graph)


def distance(graph: NeuralGraph, reference: dict[str, torch.Tensor]) -> torch.Tensor:
    stacked = graph.stacked_state()
    return sum((stacked[n] - t).square().flatten(1).sum(1) for n, t in reference.items())


def test_aligned_is_invariant_where_matching_finds_the_order() -> None:
    """Near copies of the reference, as refits from one initialisation are."""
    ours, training = make(FlatMLPAligned), graph_of(20, 1)
    torch.manual_seed(0)
    near = training[[0] * 6].map(lambda t: t + 0.01 * torch.randn_like(t))
    torch.testing.assert_close(ours(near), ours(permuted(near)))
    far = chain_like(near)
    assert not torch.allclose(ours(near), ours(far))


def chain_like(graph: NeuralGraph) -> NeuralGraph:
    """A change outside the group: one layer's columns without the layer before."""
    stacked = graph.stacked_state()
    return NeuralGraph.from_stacked(SPEC, {**stacked, "1.weight": stacked["1.weight"].flip(2)})


def test_aligned_with_canonical_signs() -> None:
    torch.manual_seed(0)
    trunk = FlatMLPAligned(Requirements.of([SPEC]), width=8)
    model = fitted(Predictor(trunk, outputs=3, canonical=True), graph_of(20, 1))
    graph = graph_of(20, 1)[[0]]
    element = SymmetryGroup(SPEC).sample(
        torch.Generator().manual_seed(0), kinds=("permutation", "sign")
    )
    torch.testing.assert_close(model(graph), model(element.act_graph(graph)))


@BOTH
def test_edits_come_back_in_the_networks_own_order(family: Callable[..., Trunk]) -> None:
    torch.manual_seed(0)
    trunk = family(Requirements.of([SPEC]), width=8, dropout=0.0)
    editor = fitted(Editor(trunk), graph_of(20, 1)).train()
    with torch.no_grad():
        for scale in editor.scales:
            scale.zero_()
    graph = graph_of(5, 0)
    edited = editor(graph)
    for name, tensor in graph.stacked_state().items():
        assert torch.equal(edited.stacked_state()[name], tensor)
    editor.eval()
    with torch.no_grad():
        for scale in editor.scales:
            scale.fill_(1.0)
    if family is FlatMLPAligned:  # equivariant where the order is found
        near = graph_of(20, 1)[[0, 0, 0]].map(lambda t: t + 0.01 * torch.randn_like(t))
        drawn = Reordering.sample(SPEC, 3, generator=torch.Generator().manual_seed(0))
        one, two = drawn.act_graph(editor(near)), editor(drawn.act_graph(near))
        for name, tensor in one.stacked_state().items():
            torch.testing.assert_close(two.stacked_state()[name], tensor)


@BOTH
def test_every_parameter_learns_and_inputs_have_gradients(family: Callable[..., Trunk]) -> None:
    for model in (make(family), editor_of(family)):
        model.train()
        stacked = random_stacked(SPEC, 4, 0, torch.float64)
        stacked = {name: tensor.requires_grad_() for name, tensor in stacked.items()}
        found = model(NeuralGraph.from_stacked(SPEC, stacked))
        values = found.stacked_state().values() if isinstance(found, NeuralGraph) else [found]
        sum(value.square().sum() for value in values).backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.abs().max() > 0, name
        assert all(t.grad is not None and t.grad.abs().max() > 0 for t in stacked.values())


def editor_of(family: Callable[..., Trunk]) -> Editor:
    trunk = family(Requirements.of([SPEC]), width=8, dropout=0.0)
    return fitted(Editor(trunk), graph_of(20, 1))


@BOTH
def test_batch_mates_do_not_matter(family: Callable[..., Trunk]) -> None:
    model, graph = make(family), graph_of(6, 0)
    together = model(graph)
    for i in range(6):
        torch.testing.assert_close(model(graph[[i]])[0], together[i])


@BOTH
def test_round_trip(family: Callable[..., Trunk], tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Predictor(family(Requirements.of([SPEC]), width=8), outputs=3)
    training = graph_of(20, 1).to(torch.float32)
    model.eval().fit_normalisation(training)
    name = "flat-mlp-aligned" if family is FlatMLPAligned else "flat-mlp-augmented"
    save_model(tmp_path / "model.safetensors", model, name=name, task={})
    assert torch.equal(load_model(tmp_path / "model.safetensors").model(training), model(training))


@BOTH
def test_modules_with_groups_norms_residuals_and_heads(family: Callable[..., Trunk]) -> None:
    graph = residual().to(torch.float64)
    torch.manual_seed(0)
    trunk = family(Requirements.of([graph.spec]), width=8, dropout=0.0)
    model = fitted(Predictor(trunk, outputs=2), graph)
    copies = graph[[0, 0, 0]]
    same = torch.allclose(model(copies), model(permuted(copies)))
    assert same == (family is FlatMLPAligned)
    editor = fitted(Editor(trunk), graph).train()
    assert editor(graph).stacked_state().keys() == graph.stacked_state().keys()


@BOTH
def test_several_architectures_are_refused(family: Callable[..., Trunk]) -> None:
    with pytest.raises(ModelError, match="one architecture"):
        family(Requirements.of([SPEC, chain_spec([2, 5, 1])]))
