"""Linear maps of edge states, arranged so that few large tensors are written."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class LinearMap(NamedTuple):
    """The weight ``[out, in]`` and bias ``[out]`` of a linear map."""

    weight: Tensor
    bias: Tensor

    @classmethod
    def of(cls, layer: nn.Linear) -> LinearMap:
        """The map of a linear layer with a bias."""
        return cls(layer.weight, layer.bias)

    def after(self, inner: LinearMap | None) -> LinearMap:
        """The composition ``x -> self(inner(x))``; None is the identity.

        Edge states are only ever used through linear maps. So the last linear map of whoever
        writes them is not applied but multiplied into the readers' own, which saves a product
        and a large tensor in every layer.
        """
        if inner is None:
            return self
        return LinearMap(self.weight @ inner.weight, F.linear(inner.bias, self.weight, self.bias))


def apply_both(
    x: Float[Tensor, "... d"], first: LinearMap, second: Float[Tensor, "k d"]
) -> tuple[Float[Tensor, "... m"], Float[Tensor, "... k"]]:
    """Compute ``first(x)`` and ``second @ x``, whose gradients meet inside one product.

    Args:
        x: edge states.
        first: a linear map with its bias.
        second: a weight without a bias.

    >>> maps = LinearMap(torch.ones(3, 2), torch.zeros(3)), torch.ones(4, 2)
    >>> [tuple(y.shape) for y in apply_both(torch.ones(5, 2), *maps)]
    [(5, 3), (5, 4)]
    """
    one, two = _ApplyBoth.apply(x, first.weight, first.bias, second)  # type: ignore[no-untyped-call]
    return one, two


class _ApplyBoth(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, second: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x, weight, second)
        return F.linear(x, weight, bias), F.linear(x, second)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        x, weight, second = ctx.saved_tensors
        flat, first_grad, second_grad = (t.flatten(0, -2) for t in (x, *grads))
        d_x = torch.mm(first_grad, weight).addmm_(second_grad, second).view_as(x)
        return d_x, first_grad.T @ flat, first_grad.sum(0), second_grad.T @ flat
