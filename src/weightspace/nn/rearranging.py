"""Bringing rows to another order, each once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from torch.autograd import Function

from weightspace.graph.caches import lasting
from weightspace.nn.first_derivative import first_derivative


@dataclass(frozen=True, eq=False)
class Rearranging:
    """An order of all rows of a buffer.

    Its gradient is the way back, a plain copy of rows; torch's own gradient of taking rows adds
    them one by one, since it cannot know that none comes twice.

    Args:
        order: the new row ``i`` is the old row ``order[i]``.

    >>> Rearranging(torch.tensor([2, 0, 1]))(torch.tensor([[5.0], [6.0], [7.0]])).flatten()
    tensor([7., 5., 6.])
    """

    order: Int[Tensor, " rows"]

    @cached_property
    @lasting
    def inverse(self) -> Int[Tensor, " rows"]:
        """The order that undoes this one."""
        return torch.argsort(self.order)

    def __call__(self, rows: Tensor) -> Tensor:
        """Rearrange rows."""
        result: Tensor = _Rearranged.apply(  # type: ignore[no-untyped-call]
            rows, self.order.to(rows.device), self.inverse.to(rows.device)
        )
        return result


class _Rearranged(Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, order: Tensor, inverse: Tensor) -> Tensor:
        ctx.inverse = inverse
        return rows.index_select(0, order)

    @staticmethod
    @first_derivative
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return grad.index_select(0, ctx.inverse), None, None
