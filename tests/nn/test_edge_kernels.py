"""The compiled passes give what the plain ones give."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.nn.batches import mixed_batch
from weightspace.models import Requirements, make_model
from weightspace.nn import fuse_kernels
from weightspace.nn.arrangement import Run
from weightspace.nn.compiling import compiled_library
from weightspace.nn.edge_kernels import SOURCE, edge_kernels
from weightspace.nn.edge_passes import EdgePasses, LiftedEdges
from weightspace.nn.fusion import edge_passes
from weightspace.nn.pieces import Direction, Ends
from weightspace.nn.plain_passes import PlainPasses

SHAPES = [(1, 1, 1), (3, 2, 5), (2, 33, 7), (64, 32, 2), (5, 1, 130), (1, 90, 40), (2, 3, 700)]


@pytest.fixture
def kernels() -> EdgePasses:
    found = edge_kernels(32)
    if found is None:
        pytest.skip("there is no C++ compiler here")
    return found


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def direction(shape: tuple[int, int, int], index: int) -> Direction:
    lead, targets, sources = shape
    target = slice(0, lead * targets)
    source = slice(target.stop, target.stop + lead * sources)
    edges = slice(0, lead * targets * sources)
    return Direction(Run(*shape, edges, target, source, target, source, (), ()), index)


def lifted(way: Direction, outputs: int, width: int = 32) -> LiftedEdges:
    torch.manual_seed(0)
    nodes = torch.randn(2, way.run.source.stop, width)  # type: ignore[union-attr]
    edges = torch.randn(way.run.edges.stop, width)
    weight = torch.randn(outputs * width, width) / width**0.5
    bias = torch.randn(outputs * width)
    return LiftedEdges(way, edges, weight, bias, Ends.of(way, *nodes))


def exact(given: LiftedEdges) -> LiftedEdges:
    ends = Ends(given.ends.receiver.double(), given.ends.sender.double())
    tensors = (given.edges.double(), given.weight.double(), given.bias.double())
    return LiftedEdges(given.way, *tensors, ends)


def close(found: Tensor, wanted: Tensor) -> bool:
    scale = wanted.abs().max().clamp_min(1e-6)
    return bool((found.double() - wanted).abs().max() <= 2e-5 * scale)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("shape", SHAPES)
def test_film(kernels: EdgePasses, shape: tuple[int, int, int], index: int) -> None:
    way = direction(shape, index)
    given = lifted(way, 2)
    found, wanted = kernels.film(given), PlainPasses().film(exact(given))
    assert all(close(*pair) for pair in zip(found, wanted, strict=True))

    grads = [torch.randn_like(each) for each in found]
    d_edges = torch.full_like(given.edges, torch.nan)
    d_edges_wanted = torch.empty_like(given.edges, dtype=torch.float64)
    *own, ends = kernels.film_backward(given, grads, d_edges)
    *other, ends_wanted = PlainPasses().film_backward(
        exact(given), [grad.double() for grad in grads], d_edges_wanted
    )
    pairs = [
        (d_edges, d_edges_wanted),
        *zip(own, other, strict=True),
        (ends.receiver, ends_wanted.receiver),
        (ends.sender, ends_wanted.sender),
    ]
    assert all(close(*pair) for pair in pairs)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("shape", SHAPES)
def test_silu(kernels: EdgePasses, shape: tuple[int, int, int], index: int) -> None:
    way = direction(shape, index)
    given = lifted(way, 1)
    found = torch.full_like(given.edges, torch.nan)
    wanted = torch.empty_like(given.edges, dtype=torch.float64)
    kernels.silu(given, found)
    PlainPasses().silu(exact(given), wanted)
    assert close(found, wanted)

    grad = torch.randn_like(found)
    kernels_weight, kernels_ends = kernels.silu_backward(given, grad, found)
    weight, ends = PlainPasses().silu_backward(exact(given), grad.double(), wanted)
    pairs = [
        (found, wanted),
        (kernels_weight, weight),
        (kernels_ends.receiver, ends.receiver),
        (kernels_ends.sender, ends.sender),
    ]
    assert all(close(*pair) for pair in pairs)


@pytest.mark.parametrize("width", [16, 64, 128])
def test_other_widths(kernels: EdgePasses, width: int) -> None:
    other = edge_kernels(width)
    assert other is not None
    given = lifted(direction((3, 5, 7), 0), 2, width)
    found, wanted = other.film(given), PlainPasses().film(exact(given))
    assert all(close(*pair) for pair in zip(found, wanted, strict=True))


def test_equal_messages_share_the_gradient(kernels: EdgePasses) -> None:
    way = direction((1, 1, 4), 0)
    given = lifted(way, 2)
    ends = Ends(given.ends.receiver, given.ends.sender[:, :, :1].repeat(1, 1, 4, 1))
    given = given._replace(edges=given.edges[:1].repeat(4, 1), ends=ends)
    grads = [torch.zeros(1, 1, 32) for _ in range(3)] + [torch.ones(1, 1, 32)]
    d_edges = torch.empty_like(given.edges)
    kernels.film_backward(given, grads, d_edges)
    assert torch.allclose(d_edges, d_edges[:1].expand(4, -1))


def test_extreme_values_stay_finite(kernels: EdgePasses) -> None:
    given = lifted(direction((1, 2, 3), 0), 1)
    given = given._replace(edges=1e4 * given.edges)
    result = torch.empty_like(given.edges)
    kernels.silu(given, result)
    assert torch.isfinite(result).all()


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
