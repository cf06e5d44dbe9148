"""Products of lifted weights, and their gradients, against autograd on the plain formulas."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weightspace.errors import ModelError
from weightspace.nn import raw_blocks
from weightspace.nn.lifted_products import lift_sums, lifted_products
from weightspace.nn.lifts import LIFTS, Lifting
from weightspace.nn.raw_blocks import RawBlock

SHAPES = [(3, 7, 5, 1), (2, 6, 8, 3), (5, 1, 1, 1), (2, 9, 3, 4)]
WIDTH = 4


def naive_lifts(x: Tensor, names: tuple[str, ...]) -> Tensor:
    formulas = {"weight": x, "size": x.abs(), "squash": x / (1 + x.abs())}
    return torch.stack([formulas[name] for name in names], -1).flatten(-2)


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("limit", [1, 100, 1 << 19])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("names", ["weight size squash", "squash weight", "size", "weight"])
def test_against_autograd(
    limit: int, shape: tuple[int, ...], names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw_blocks, "PIECE_VALUES", limit)
    torch.manual_seed(0)
    lifting = Lifting.of(names)
    values = draw(*shape)
    mean, std = draw(shape[3]).detach(), draw(shape[3]).detach().abs() + 0.5
    block = RawBlock(values, mean, std)
    scales = draw(2, shape[3] * lifting.count, WIDTH)
    sources, targets = draw(shape[0], shape[2], WIDTH), draw(shape[0], shape[1], WIDTH)
    ours = (
        *lifted_products(block, lifting, scales, sources, targets),
        *lift_sums(block, lifting),
    )
    lifted = naive_lifts((values - mean) / std, lifting.names)
    naive = (
        torch.einsum("ltsf,fd,lsd->ltd", lifted, scales[0], sources),
        torch.einsum("ltsf,fd,ltd->lsd", lifted, scales[1], targets),
        lifted.sum(2),
        lifted.sum(1),
    )
    factors = [torch.randn_like(value) for value in naive]
    grads = []
    for outputs in (ours, naive):
        total = sum((o * f).sum() for o, f in zip(outputs, factors, strict=True))
        grads.append(torch.autograd.grad(total, [values, scales, sources, targets]))
    for one, two in zip((*ours, *grads[0]), (*naive, *grads[1]), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", list(LIFTS))
def test_slopes(name: str) -> None:
    x = torch.linspace(-2, 2, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: Lifting((name,))(x[:, None]), [x])


def test_weights_are_not_copied() -> None:
    values = torch.zeros(1, 5, 6, 3)
    values[0, 2, 1, 1] = 7.0
    transposed = RawBlock(values.transpose(1, 2), torch.zeros(3), torch.ones(3))
    lifting = Lifting.of("weight")
    before = values.clone()
    sums, _ = lift_sums(transposed, lifting)
    assert sums[0, 1].tolist() == [0.0, 7.0, 0.0]
    assert torch.equal(values, before)


@pytest.mark.parametrize("names", ["", "cube", "weight weight"])
def test_lifts_that_do_not_exist(names: str) -> None:
    with pytest.raises(ModelError, match="some of weight, size, squash, each once"):
        Lifting.of(names)
