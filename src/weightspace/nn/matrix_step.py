"""One step of weight-space networks on a matrix of entries, in pieces that fit the cache.

Every equivariant map to a matrix is a map of its own entries plus vectors of its rows and of its
columns. Written plainly that makes five temporaries as large as all entries of a batch, and the
pooling of the result reads them twice more. Here all is done while a piece is in the cache.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function

from weightspace.nn.cached_parts import cached_parts
from weightspace.nn.first_derivative import first_derivative

Pool = Literal["mean", "max"]


def matrix_step(
    entries: Float[Tensor, "lead n m c"],
    weight: Float[Tensor, "d c"],
    rows: Float[Tensor, "lead n d"],
    columns: Float[Tensor, "lead m d"],
    *,
    pool: Pool = "mean",
    rectify: bool = True,
) -> tuple[Float[Tensor, "lead n m d"], Float[Tensor, "lead n d"], Float[Tensor, "lead m d"]]:
    """Compute ``y_ij = ReLU(W x_ij + r_i + c_j)`` and pool it along rows and along columns.

    Args:
        entries: ``x``.
        weight: ``W``.
        rows: ``r``, what every entry of a row is given.
        columns: ``c``.
        pool: the mean, or the maximum; entries that are it together share its gradient.
        rectify: False leaves out the ReLU.

    Returns:
        ``y``, its pool over each row's entries, and over each column's.

    >>> ones = torch.ones(1, 2, 3, 4)
    >>> y, _, _ = matrix_step(ones, torch.ones(5, 4), torch.ones(1, 2, 5), torch.ones(1, 3, 5))
    >>> y.shape, float(y.mean())
    (torch.Size([1, 2, 3, 5]), 6.0)
    """
    result: tuple[Tensor, Tensor, Tensor] = _MatrixStep.apply(  # type: ignore[no-untyped-call]
        entries.contiguous(), weight, rows, columns, pool, rectify
    )
    return result


class _MatrixStep(Function):
    @staticmethod
    def forward(  # noqa: PLR0917 (autograd passes by position)
        ctx: Any,
        entries: Tensor,
        weight: Tensor,
        rows: Tensor,
        columns: Tensor,
        pool: Pool,
        rectify: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        (lead, n, m, _), width = entries.shape, len(weight)
        result = entries.new_empty(lead, n, m, width)
        over_columns, over_rows = torch.empty_like(rows), torch.empty_like(columns)
        for part in cached_parts(lead, n * m * width):
            y = result[part]
            torch.mm(entries[part].flatten(0, 2), weight.T, out=y.view(-1, width))
            y.add_(rows[part].unsqueeze(2)).add_(columns[part].unsqueeze(1))
            if rectify:
                y.relu_()
            for room, dimension in ((over_columns[part], 2), (over_rows[part], 1)):
                if pool == "mean":
                    torch.mean(y, dimension, out=room)
                else:
                    torch.amax(y, dimension, out=room)
        ctx.save_for_backward(entries, weight, result, over_columns, over_rows)
        ctx.pool, ctx.rectify = pool, rectify
        ctx.set_materialize_grads(False)
        return result, over_columns, over_rows

    @staticmethod
    @first_derivative
    def backward(
        ctx: Any, grad: Tensor | None, d_over_columns: Tensor | None, d_over_rows: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        entries, weight, result, over_columns, over_rows = ctx.saved_tensors
        (lead, n, m, channels), width = entries.shape, len(weight)
        d_entries = torch.empty_like(entries) if ctx.needs_input_grad[0] else None
        d_weight = torch.zeros_like(weight)
        d_rows, d_columns = torch.empty_like(over_columns), torch.empty_like(over_rows)
        pooled = (
            (d_over_columns, over_columns, 2, m),
            (d_over_rows, over_rows, 1, n),
        )
        for part in cached_parts(lead, n * m * max(width, channels)):
            y = result[part]
            d = torch.zeros_like(y) if grad is None else grad[part]
            for given, extreme, dimension, count in pooled:
                if given is None:
                    continue
                if ctx.pool == "mean":
                    d = torch.add(d, given[part].unsqueeze(dimension), alpha=1 / count)
                else:
                    d = _to_extremes(
                        d, y, given[part].unsqueeze(dimension), extreme[part], dimension
                    )
            if ctx.rectify:
                d = torch.ops.aten.threshold_backward(d, y, 0)
            torch.sum(d, 2, out=d_rows[part])
            torch.sum(d, 1, out=d_columns[part])
            flat = d.reshape(-1, width)
            d_weight.addmm_(flat.T, entries[part].flatten(0, 2))
            if d_entries is not None:
                torch.mm(flat, weight, out=d_entries[part].view(-1, channels))
        return d_entries, d_weight, d_rows, d_columns, None, None


def _to_extremes(d: Tensor, y: Tensor, given: Tensor, extreme: Tensor, dimension: int) -> Tensor:
    mask = (y == extreme.unsqueeze(dimension)).to(y.dtype)
    return torch.addcmul(d, mask, given / mask.sum(dimension, keepdim=True))
