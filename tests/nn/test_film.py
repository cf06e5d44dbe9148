"""The hand-written backward passes against autograd on the plain formulas."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import weightspace.nn.film as film_module
from weightspace.nn import LinearMap, apply_both, film_aggregate, pair_silu


def tensors(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def naive(film: torch.Tensor, receiver: torch.Tensor, sender: torch.Tensor, over: int):  # type: ignore[no-untyped-def]
    scale, shift = film.chunk(2, -1)
    message = scale * (receiver + sender) + shift
    return message.sum(over), message.square().sum(over), message.amin(over), message.amax(over)


@pytest.mark.parametrize("over", [2, 3])
@pytest.mark.parametrize("cached", [1, 40, 1 << 18])
def test_film_aggregate(over: int, cached: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(film_module, "CACHED_VALUES", cached)
    sizes = {2: [(5, 2, 1, 4, 3), (5, 2, 3, 1, 3)], 3: [(5, 2, 3, 1, 3), (5, 2, 1, 4, 3)]}
    inputs = tensors((5, 2, 3, 4, 6), *sizes[over])
    ours = film_aggregate(*inputs, over=over)
    theirs = naive(*inputs, over)
    weights = [torch.randn_like(output) for output in theirs]
    for one, two in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, two)
    grads = [
        torch.autograd.grad([(o * w).sum() for o, w in zip(outputs, weights, strict=True)], inputs)
        for outputs in (ours, theirs)
    ]
    for one, two in zip(*grads, strict=True):
        torch.testing.assert_close(one, two)


def test_ties_share_the_gradient() -> None:
    film = torch.zeros(1, 1, 1, 4, 2, dtype=torch.float64, requires_grad=True)
    one = torch.ones(1, 1, 1, 1, 1, dtype=torch.float64)
    film_aggregate(film, one, one.expand(1, 1, 1, 4, 1), over=3).minimum.sum().backward()
    assert torch.equal(film.grad[..., 1].flatten(), torch.full((4,), 0.25, dtype=torch.float64))


def test_pair_silu() -> None:
    inputs = tensors((2, 2, 3, 4, 5), (2, 2, 3, 1, 5), (2, 2, 1, 4, 5))
    torch.testing.assert_close(pair_silu(*inputs), F.silu(sum(inputs)))
    assert torch.autograd.gradcheck(pair_silu, inputs)


def test_apply_both() -> None:
    x, weight, bias, second = tensors((2, 3, 4), (5, 4), (5,), (6, 4))
    one, two = apply_both(x, LinearMap(weight, bias), second)
    torch.testing.assert_close(one, F.linear(x, weight, bias))
    torch.testing.assert_close(two, F.linear(x, second))
    assert torch.autograd.gradcheck(
        lambda *args: apply_both(args[0], LinearMap(args[1], args[2]), args[3]),
        [x, weight, bias, second],
    )


def test_composed_maps() -> None:
    outer, inner = torch.nn.Linear(4, 2), torch.nn.Linear(3, 4)
    x = torch.randn(5, 3)
    composed = LinearMap.of(outer).after(LinearMap.of(inner))
    torch.testing.assert_close(F.linear(x, *composed), outer(inner(x)))
    assert LinearMap.of(outer).after(None).weight is outer.weight
