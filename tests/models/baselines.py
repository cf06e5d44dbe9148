"""What every baseline's tests check."""

from __future__ import annotations

from pathlib import Path

import torch

from tests.graph.strategies import random_stacked
from weightspace.graph import GraphSpec, MixedGraph, NeuralGraph
from weightspace.models import Editor, Metanetwork, Predictor, load_model, save_model


def graph_of(spec: GraphSpec, networks: int, seed: int = 0) -> NeuralGraph:
    return NeuralGraph.from_stacked(spec, random_stacked(spec, networks, seed, torch.float64))


def fitted(model: Metanetwork, batch: NeuralGraph | MixedGraph) -> Metanetwork:
    """In evaluation mode and double precision, normalised by a batch."""
    model.double().eval().fit_normalisation(batch)
    return model.double()


def outputs(model: Metanetwork, batch: NeuralGraph | MixedGraph) -> list[torch.Tensor]:
    """A tensor for each output or edited parameter, networks first."""
    found = model(batch)
    if isinstance(found, torch.Tensor):
        return [found]
    assert isinstance(found, NeuralGraph)
    return [tensor for tensor in found.stacked_state().values() if tensor.is_floating_point()]


def check_batch_mates_do_not_matter(model: Metanetwork, graph: NeuralGraph) -> None:
    together = outputs(model, graph)
    for i in range(graph.batch_size):
        for alone, row in zip(outputs(model, graph[[i]]), together, strict=True):
            torch.testing.assert_close(alone[0], row[i], rtol=1e-9, atol=1e-11)


def check_mixed(model: Metanetwork, graphs: list[NeuralGraph]) -> None:
    """The same numbers for networks of several specs together, interleaved, and apart."""
    batch = MixedGraph.of([g[[i]] for i in range(2) for g in graphs])
    expected = [g[[i]] for i in range(2) for g in graphs]
    if isinstance(model, Predictor):
        apart = torch.cat([model(g) for g in expected])
        torch.testing.assert_close(model(batch), apart, rtol=1e-9, atol=1e-11)
        return
    for one, alone in zip(model(batch).networks(), map(model, expected), strict=True):
        for name, tensor in alone.stacked_state().items():
            torch.testing.assert_close(one.stacked_state()[name], tensor, rtol=1e-9, atol=1e-11)


def check_every_parameter_learns(model: Metanetwork, graph: NeuralGraph) -> None:
    model.train()
    sum(value.square().sum() for value in outputs(model, graph)).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name
    model.eval()


def check_gradients(model: Metanetwork, spec: GraphSpec) -> None:
    stacked = random_stacked(spec, 2, 0, torch.float64)
    names = list(stacked)

    def run(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        state = dict(zip(names, tensors, strict=True))
        return tuple(outputs(model, NeuralGraph.from_stacked(spec, state)))

    inputs = [tensor.requires_grad_() for tensor in stacked.values()]
    assert torch.autograd.gradcheck(run, inputs, eps=1e-6, atol=1e-5)


def check_round_trip(model: Metanetwork, name: str, graph: NeuralGraph, folder: Path) -> None:
    model, graph = model.float().eval(), graph.to(torch.float32)
    save_model(folder / "model.safetensors", model, name=name, task={})
    loaded = load_model(folder / "model.safetensors").model
    for one, two in zip(outputs(loaded, graph), outputs(model, graph), strict=True):
        assert torch.equal(one, two)


def without_scales(editor: Editor) -> Editor:
    """With a learned scale of 1, so that edits can be seen."""
    with torch.no_grad():
        for scale in editor.scales:
            scale.fill_(1.0)
    return editor
