"""The compiled passes give what the plain ones give."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.nn.batches import mixed_batch
from weightspace.graph import MixedGraph, NeuralGraph, chain_spec
from weightspace.models import Requirements, make_model
from weightspace.nn import arrange, fuse_kernels
from weightspace.nn.arrangement import Arrangement
from weightspace.nn.compiling import compiled_library
from weightspace.nn.edge_kernels import SOURCE, edge_kernels
from weightspace.nn.edge_passes import EdgeInputs, EdgePasses
from weightspace.nn.fusion import edge_passes
from weightspace.nn.plain_passes import PlainPasses

SHAPES = [(1, 1, 1), (3, 2, 5), (2, 33, 7), (64, 32, 2), (5, 1, 130), (1, 90, 40), (2, 3, 700)]


@pytest.fixture
def kernels() -> EdgePasses:
    found = edge_kernels(32)
    if found is None:
        pytest.skip("there is no C++ compiler here")
    return found


@pytest.fixture(autouse=True)
def threads_for_few_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weightspace.nn.edge_kernels.WORTH_THREADS", 1)


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def arrangement(shape: tuple[int, int, int]) -> Arrangement:
    """Of networks of one block."""
    lead, targets, sources = shape
    spec = chain_spec([sources, targets])
    state = {p.name: torch.zeros(p.shape) for p in spec.parameters}
    return arrange(MixedGraph.of(NeuralGraph.from_states(spec, [state] * lead)))


def several() -> Arrangement:
    """Of networks of many shapes, some of several groups."""
    return arrange(mixed_batch(True, torch.float32))


ARRANGEMENTS = [*(functools.partial(arrangement, shape) for shape in SHAPES), several]
Make = Callable[[], Arrangement]


def inputs(arranged: Arrangement, outputs: int, width: int = 32) -> EdgeInputs:
    torch.manual_seed(0)
    receivers, senders = torch.randn(2, arranged.node_count, width)
    edges = torch.randn(2, arranged.edge_count, width)
    weight = torch.randn(2, outputs * width, width) / width**0.5
    bias = torch.randn(2, outputs * width)
    return EdgeInputs(arranged, edges, weight, bias, receivers, senders)


def exact(given: EdgeInputs) -> EdgeInputs:
    arranged, *tensors = given
    return EdgeInputs(arranged, *(tensor.double() for tensor in tensors))


def close(found: Tensor, wanted: Tensor) -> bool:
    scale = wanted.abs().max().clamp_min(1e-6)
    return bool((found.double() - wanted).abs().max() <= 2e-5 * scale)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("make", ARRANGEMENTS)
def test_film(kernels: EdgePasses, make: Make) -> None:
    given = inputs(make(), 2)
    found, wanted = kernels.film(given), PlainPasses().film(exact(given))
    assert all(close(*pair) for pair in zip(found, wanted, strict=True))

    total, squares, least, most = (torch.randn_like(each) for each in found)
    grads = kernels.film_backward(given, (total, squares, least, most))
    doubled = total.double(), squares.double(), least.double(), most.double()
    grads_wanted = PlainPasses().film_backward(exact(given), doubled)
    assert all(close(*pair) for pair in zip(grads, grads_wanted, strict=True))


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("make", ARRANGEMENTS)
def test_silu(kernels: EdgePasses, make: Make) -> None:
    given = inputs(make(), 1)
    found, wanted = kernels.silu(given), PlainPasses().silu(exact(given))
    assert close(found, wanted)

    grad = torch.randn_like(found)
    grads = kernels.silu_backward(given, grad)
    grads_wanted = PlainPasses().silu_backward(exact(given), grad.double())
    assert all(close(*pair) for pair in zip(grads, grads_wanted, strict=True))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_any_number_of_threads_gives_the_same(kernels: EdgePasses, threads: int) -> None:
    given, before = inputs(several(), 2), torch.get_num_threads()
    found = kernels.film(given)
    grads = kernels.film_backward(given, found)
    try:
        torch.set_num_threads(threads)
        assert all(map(torch.equal, kernels.film(given), found))
        again = kernels.film_backward(given, found)
        assert all(map(torch.equal, kernels.film_backward(given, found), again))
    finally:
        torch.set_num_threads(before)
    assert all(close(one, other.double()) for one, other in zip(again, grads, strict=True))


@pytest.mark.parametrize("width", [16, 64, 128])
def test_other_widths(kernels: EdgePasses, width: int) -> None:
    other = edge_kernels(width)
    assert other is not None
    given = inputs(arrangement((3, 5, 7)), 2, width)
    found, wanted = other.film(given), PlainPasses().film(exact(given))
    assert all(close(*pair) for pair in zip(found, wanted, strict=True))


def test_equal_messages_share_the_gradient(kernels: EdgePasses) -> None:
    given = inputs(arrangement((1, 1, 4)), 2)
    edges = given.edges[:, :1].repeat(1, 4, 1)
    same = (
        given.receivers[:1].expand_as(given.receivers),
        given.senders[:1].expand_as(given.senders),
    )
    given = given._replace(edges=edges, receivers=same[0], senders=same[1])
    none = torch.zeros_like(given.received())
    grads = kernels.film_backward(given, (none, none, none, torch.ones_like(none)))
    assert torch.allclose(grads.edges[0], grads.edges[0, :1].expand(4, -1))


def test_extreme_values_stay_finite(kernels: EdgePasses) -> None:
    given = inputs(arrangement((1, 2, 3)), 1)
    assert torch.isfinite(kernels.silu(given._replace(edges=1e4 * given.edges))).all()


def test_plain_passes_where_the_compiled_ones_do_not_fit(kernels: EdgePasses) -> None:
    assert fuse_kernels()
    try:
        assert edge_passes(torch.zeros(3, 32)) is kernels
        assert isinstance(edge_passes(torch.zeros(3, 32, dtype=torch.float64)), PlainPasses)
        assert isinstance(edge_passes(torch.zeros(3, 20)), PlainPasses)
    finally:
        fuse_kernels(False)
    assert isinstance(edge_passes(torch.zeros(3, 32)), PlainPasses)


def test_without_a_working_compiler_nothing_is_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert compiled_library(SOURCE, WIDTH=48) is None
    monkeypatch.setenv("CXX", "false")
    assert compiled_library(SOURCE, WIDTH=80) is None


def test_a_library_is_compiled_once(
    kernels: EdgePasses, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    uncached = compiled_library.__wrapped__
    assert uncached(SOURCE, WIDTH=16) is not None
    (kept,) = (tmp_path / "weightspace").iterdir()
    before = kept.stat().st_mtime_ns
    calls = []
    real = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: (calls.append(a[0]), real(*a, **k))[1])
    assert uncached(SOURCE, WIDTH=16) is not None
    assert kept.stat().st_mtime_ns == before
    assert all("-shared" not in call for call in calls)


@pytest.mark.parametrize("several", [False, True])
def test_a_model_gives_the_same_either_way(kernels: EdgePasses, several: bool) -> None:
    batch = mixed_batch(several, torch.float32)
    torch.manual_seed(0)
    needs = Requirements.of([part.spec for part in batch.parts])
    model = make_model("ng-gnn", needs, outputs=3).eval()
    plain = model(batch)
    assert fuse_kernels()
    try:
        fused = model(batch)
        fused.square().sum().backward()
    finally:
        fuse_kernels(False)
    assert torch.allclose(plain, fused, rtol=1e-5, atol=1e-5)
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
