"""The step on matrices in pieces: its values and gradients against plain operations."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weightspace.nn import matrix_step as module
from weightspace.nn.matrix_step import Pool, matrix_step


def inputs(lead: int = 5) -> list[Tensor]:
    torch.manual_seed(0)
    shapes = [(lead, 3, 2, 4), (6, 4), (lead, 3, 6), (lead, 2, 6)]
    return [torch.randn(shape, dtype=torch.float64).requires_grad_() for shape in shapes]


def plain(given: list[Tensor], pool: Pool, rectify: bool) -> tuple[Tensor, Tensor, Tensor]:
    x, weight, rows, columns = given
    y = x @ weight.T + rows[:, :, None] + columns[:, None]
    y = y.relu() if rectify else y
    return (y, y.mean(2), y.mean(1)) if pool == "mean" else (y, y.amax(2), y.amax(1))


@pytest.mark.parametrize("rectify", [True, False])
@pytest.mark.parametrize("pool", ["mean", "max"])
@pytest.mark.parametrize("limit", [1, 80, 1 << 18])
def test_against_plain_operations(
    pool: Pool, rectify: bool, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = module.cached_parts
    monkeypatch.setattr(module, "cached_parts", lambda batch, values: cut(batch, values, limit))
    given = inputs()
    found = matrix_step(*given, pool=pool, rectify=rectify)
    wanted = plain(given, pool, rectify)
    weights = [torch.randn_like(value) for value in wanted]
    for one, two in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, two)
    for chosen in ([0, 1, 2], [1], [0], [2, 1]):
        grads = [
            torch.autograd.grad(
                sum((results[i] * weights[i]).sum() for i in chosen), given, retain_graph=True
            )
            for results in (found, wanted)
        ]
        for one, two in zip(*grads, strict=True):
            torch.testing.assert_close(one, two)


@pytest.mark.parametrize("pool", ["mean", "max"])
def test_finite_differences(pool: Pool) -> None:
    assert torch.autograd.gradcheck(lambda *x: matrix_step(*x, pool=pool), inputs(2))


def test_maxima_that_are_equal_share_their_gradient() -> None:
    x = torch.ones(1, 1, 4, 1, dtype=torch.float64, requires_grad=True)
    zeros = [torch.zeros(1, n, 1, dtype=torch.float64) for n in (1, 4)]
    _, rows, _ = matrix_step(x, torch.ones(1, 1, dtype=torch.float64), *zeros, pool="max")
    rows.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, torch.full_like(x, 0.25))
