"""Fixtures of the compiled passes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from weightspace.nn import fuse_kernels, grid_shape


@pytest.fixture
def fused() -> Iterator[None]:
    """Compiled passes are in use."""
    if not fuse_kernels():
        pytest.skip("there is no C++ compiler here")
    yield
    fuse_kernels(False)


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """So many threads, however few pairs there are."""
    monkeypatch.setattr(grid_shape, "WORTH_THREADS", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)
