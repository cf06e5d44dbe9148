"""The deferred executor: the same numbers and gradients as with stored edge states."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import Tensor, nn

from tests.nn.batches import mixed_batch
from tests.nn.test_arrangement import Residual
from weightspace import from_module
from weightspace.errors import ModelError
from weightspace.graph import MixedGraph
from weightspace.models import NGGNN, Editor, Predictor, Requirements, metanetwork
from weightspace.nn import deferred, raw_blocks


@functools.cache
def residual() -> MixedGraph:
    torch.manual_seed(0)
    graph = from_module(Residual().eval(), torch.randn(1, 3, 6, 6)).to(torch.float64)
    return MixedGraph.of([graph, graph.map(lambda t: t * 1.5 + 0.1)])


def make(batch: MixedGraph) -> Predictor:
    torch.manual_seed(0)
    trunk = NGGNN(Requirements.of(batch.specs), width=6, layers=4, frequencies=4, sigma=0.5)
    model = Predictor(trunk, outputs=3).double().eval()
    model.fit_normalisation(batch)
    return model.double()


def batch_of(name: str) -> MixedGraph:
    return residual() if name == "module" else mixed_batch(name == "several")


def gradients(model: nn.Module, output: Tensor, weights: list[Tensor]) -> list[Tensor]:
    wanted = [p for n, p in model.named_parameters() if p.requires_grad] + weights
    factor = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
    found = torch.autograd.grad((output * factor).sum(), wanted, allow_unused=True)
    return [torch.zeros_like(w) if f is None else f for w, f in zip(wanted, found, strict=True)]


@pytest.mark.parametrize("limit", [1, 60, 1 << 19])
@pytest.mark.parametrize("name", ["one", "several", "module"])
def test_same_numbers_and_gradients(name: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred, "STATE_VALUES", limit)
    monkeypatch.setattr(raw_blocks, "JOINED_VALUES", 0 if limit == 1 else 1 << 20)
    batch = batch_of(name).map_parts(lambda g: g.map(lambda t: t.clone().requires_grad_()))
    weights = [t for part in batch.parts for t in (*part.edges.values(), *part.nodes.values())]
    model = make(batch_of(name))
    stored, found = (model(batch, executor=e) for e in ("stored", "deferred"))
    torch.testing.assert_close(stored, found, rtol=1e-10, atol=1e-10)
    for one, two in zip(
        gradients(model, stored, weights), gradients(model, found, weights), strict=True
    ):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-10)


def test_same_numbers_in_single_precision() -> None:
    batch = mixed_batch(True, torch.float32)
    model = make(mixed_batch(True)).float()
    stored, found = (model(batch, executor=e) for e in ("stored", "deferred"))
    torch.testing.assert_close(stored, found, rtol=1e-5, atol=1e-5)


def test_chosen_by_the_size_of_edge_states(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = mixed_batch(False)
    model = make(batch)
    used: list[str] = []
    original = model.trunk.forward

    def spy(networks):  # type: ignore[no-untyped-def]
        used.append(networks.executor)
        return original(networks)

    monkeypatch.setattr(model.trunk, "forward", spy)
    # 4 kept states of 23 edges of 5 networks, both directions, 6 channels of 8 bytes
    needed = 2 * 5 * 23 * 5 * 6 * 8
    for most in (needed, needed - 1):
        monkeypatch.setattr(metanetwork, "MOST_STORED_BYTES", most)
        model(batch)
    assert used == ["stored", "deferred"]


def test_node_states_stay_bounded_by_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """No tensor that the deferred pass makes is as large as one state of all edges."""
    from torch.utils._python_dispatch import TorchDispatchMode

    monkeypatch.setattr(deferred, "STATE_VALUES", 40)
    largest = 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            for tensor in out if isinstance(out, (tuple, list)) else (out,):
                if isinstance(tensor, Tensor) and tensor.ndim == 4:
                    largest = max(largest, tensor.numel())
            return out

    batch = mixed_batch(False)
    model = make(batch)
    edges = batch.parts[0].batch_size * batch.parts[0].spec.edge_count
    with Watch():
        model(batch, executor="deferred").sum().backward()
    # one receiver with its few senders, in twice the width, against two directions of all edges
    assert 0 < largest <= 5 * 4 * 4 * 12 < 2 * edges * 6


def test_edits_need_stored_states() -> None:
    batch = mixed_batch(False)
    editor = Editor(NGGNN(Requirements.of(batch.specs), width=6, layers=2)).double()
    read = editor.read(batch, executor="deferred")
    with pytest.raises(ModelError, match="'stored' edge states"):
        editor.changes(read.networks, read.state)
