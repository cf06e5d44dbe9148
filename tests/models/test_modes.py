"""Every model in every mode that torch has: precision, inference, second derivatives."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest
import torch

from weightspace.errors import WeightspaceError
from weightspace.graph import MixedGraph, NeuralGraph, chain_spec
from weightspace.models import MODELS, Predictor, Requirements, make_editor, make_model
from weightspace.testing import sample_graph

SPEC = chain_spec([2, 4, 4, 1], activations="sine")
SMALL = {"width": 8, "layers": 2, "dropout": 0.0, "frequencies": 4, "heads": 2, "head": 8,
         "pair_width": 4, "size": 8, "node_hidden": 8, "pair_hidden": 8}  # fmt: skip
EDITORS = [name for name in MODELS if name not in ("stat-nn", "probe-only")]
TWICE = ["flat-mlp", "flat-mlp-augmented", "flat-mlp-aligned", "stat-nn", "probe-only", "inr2vec"]


def _options(name: str) -> dict[str, int | float]:
    known = inspect.signature(MODELS[name].family.__init__).parameters
    return {key: value for key, value in SMALL.items() if key in known}  # type: ignore[misc]


def _model(name: str, graph: NeuralGraph) -> Predictor:
    torch.manual_seed(0)
    model = make_model(name, Requirements.of([graph.spec]), outputs=2, options=_options(name))
    model.to(next(iter(graph.edges.values())).dtype).fit_normalisation(graph)
    return model.eval()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", list(MODELS))
def test_autocast_around_a_model_changes_nothing(name: str, dtype: torch.dtype) -> None:
    graph = sample_graph(SPEC, 3, dtype=torch.float32)
    model = _model(name, graph)
    with torch.autocast("cpu", dtype=dtype):
        inside = model.embed(graph)
        loss = model(graph).float().square().sum()
    loss.backward()
    torch.testing.assert_close(inside, model.embed(graph))
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("name", EDITORS)
def test_autocast_around_an_editor_changes_nothing(name: str) -> None:
    graph = sample_graph(SPEC, 3, dtype=torch.float32)
    torch.manual_seed(0)
    editor = make_editor(name, Requirements.of([SPEC]), options=_options(name)).eval()
    editor.fit_normalisation(graph)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = editor(graph).stacked_state()
    for key, tensor in editor(graph).stacked_state().items():
        torch.testing.assert_close(inside[key], tensor)


@pytest.mark.parametrize("number", range(2))
@pytest.mark.parametrize("name", list(MODELS))
def test_a_first_look_in_inference_mode_leaves_training_possible(name: str, number: int) -> None:
    # sizes of their own: nothing about these networks has been remembered before
    size = 11 + 2 * list(MODELS).index(name) + number
    graph = sample_graph(chain_spec([2, size, size, 1], activations="tanh"), 3)
    model = _model(name, graph)
    batch = MixedGraph((graph, graph), (3, 0, 1, 2, 4, 5)) if number else MixedGraph.of(graph)
    with torch.inference_mode():
        seen = model(batch)
    outputs = model(batch)
    outputs.square().sum().backward()
    torch.testing.assert_close(outputs.detach(), seen.clone())
    assert any(p.grad is not None for p in model.parameters())


def _gradients(model: Predictor, tensors: list[torch.Tensor], *, twice: bool) -> list[torch.Tensor]:
    names = [p.name for p in SPEC.parameters]
    graph = NeuralGraph.from_stacked(SPEC, dict(zip(names, tensors, strict=True)))
    total = model(graph).square().sum()
    return list(torch.autograd.grad(total, tensors, create_graph=twice, materialize_grads=True))


def _second(first: list[torch.Tensor], tensors: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    penalty = torch.stack([g.square().sum() for g in first]).sum()
    return torch.autograd.grad(penalty, tensors, materialize_grads=True)


@pytest.mark.parametrize("name", list(MODELS))
def test_second_derivatives_are_right_or_refused(name: str) -> None:
    graph = sample_graph(SPEC, 3)
    model = _model(name, graph)
    own = [t.clone().requires_grad_() for t in graph.stacked_state().values()]
    if name not in TWICE:
        refusals = (WeightspaceError, RuntimeError)  # torch's own attention says it itself
        with pytest.raises(refusals, match=r"create_graph=True|derivative for"):
            _second(_gradients(model, own, twice=True), own)
        return
    ways = [torch.randn_like(t) for t in own]
    first = _gradients(model, own, twice=True)
    second = _second(first, own)
    found = sum((g * way).sum() for g, way in zip(second, ways, strict=True))

    def near(step: float) -> torch.Tensor:
        moved = [(t + step * w).detach().requires_grad_() for t, w in zip(own, ways, strict=True)]
        return sum(g.square().sum() for g in _gradients(model, moved, twice=False))

    numeric = (near(1e-6) - near(-1e-6)) / 2e-6
    torch.testing.assert_close(
        torch.as_tensor(found), torch.as_tensor(numeric), rtol=1e-4, atol=1e-9
    )


@pytest.mark.parametrize("name", list(MODELS))
def test_copies_are_the_same_model(name: str) -> None:
    graph = sample_graph(SPEC, 3, dtype=torch.float32)
    model = _model(name, graph)
    expected = model(graph)
    assert torch.equal(model(graph), expected)
    assert torch.equal(copy.deepcopy(model)(graph), expected)
    assert torch.equal(pickle.loads(pickle.dumps(model))(graph), expected)  # noqa: S301


@pytest.mark.parametrize("name", list(MODELS))
def test_parts_of_one_spec_may_stand_apart(name: str) -> None:
    graph = sample_graph(SPEC, 4)
    model = _model(name, graph)
    apart = MixedGraph((graph[[1, 3]], graph[[0, 2]]), (2, 0, 3, 1))
    torch.testing.assert_close(model(apart), model(graph), rtol=1e-9, atol=1e-11)
    if name in EDITORS:
        torch.manual_seed(0)
        editor = make_editor(name, Requirements.of([SPEC]), options=_options(name)).double()
        editor.eval().fit_normalisation(graph)
        together = editor(graph)
        for i, network in enumerate(editor(apart).networks()):
            for key, tensor in together.state_dict(i).items():
                torch.testing.assert_close(network.state_dict()[key], tensor)
