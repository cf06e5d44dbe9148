"""Reductions over some dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from weightspace.importers.onnx.operation import Function, Operation, operator

Reduce = Callable[[Tensor, list[int], bool], Any]

_REDUCE: dict[str, Reduce] = {
    "ReduceMean": lambda x, dims, keep: x.mean(dims, keepdim=keep),
    "ReduceSum": lambda x, dims, keep: x.sum(dims, keepdim=keep, dtype=x.dtype),
    "ReduceMax": lambda x, dims, keep: x.amax(dims, keepdim=keep),
    "ReduceMin": lambda x, dims, keep: x.amin(dims, keepdim=keep),
    "ReduceL1": lambda x, dims, keep: x.abs().sum(dims, keepdim=keep, dtype=x.dtype),
    "ReduceL2": lambda x, dims, keep: (x * x).sum(dims, keepdim=keep, dtype=x.dtype).sqrt(),
    "ReduceSumSquare": lambda x, dims, keep: (x * x).sum(dims, keepdim=keep, dtype=x.dtype),
    "ReduceLogSum": lambda x, dims, keep: x.sum(dims, keepdim=keep, dtype=x.dtype).log(),
    "ReduceLogSumExp": lambda x, dims, keep: x.logsumexp(dims, keepdim=keep),
}


@operator(*_REDUCE, "ReduceProd")
def reduce(op: Operation) -> Function:
    """Symmetric functions; all dimensions if none is named."""
    asked = op.ints(1, "axes")
    if not asked and op.attributes.get("noop_with_empty_axes"):
        return lambda x, *rest: x
    rank = op.rank()
    dims = [op.positive(d, rank) for d in asked] if asked else list(range(rank))
    keep = bool(op.attributes.get("keepdims", 1))
    if not dims:
        return lambda x, *rest: x
    if op.kind == "ReduceProd":
        return lambda x, *rest: _product(x, dims, keep=keep)
    function = _REDUCE[op.kind]
    return lambda x, *rest: function(x, dims, keep)


def _product(x: Tensor, dims: list[int], *, keep: bool) -> Tensor:
    for dim in sorted(dims, reverse=True):
        x = x.prod(dim, keepdim=keep, dtype=x.dtype)
    return x


@operator("ArgMax", "ArgMin")
def argmax(op: Operation) -> Function:
    """The index of the largest."""
    op.require("select_last_index", 0)
    axis, keep = op.axis(), bool(op.attributes.get("keepdims", 1))
    function = torch.argmax if op.kind == "ArgMax" else torch.argmin
    return lambda x: function(x, axis, keep)


@operator("CumSum")
def cumsum(op: Operation) -> Function:
    """Running sums."""
    op.require("exclusive", 0)
    op.require("reverse", 0)
    axis = op.positive((op.ints(1) or [0])[0], op.rank())
    return lambda x, *rest: torch.cumsum(x, axis, dtype=x.dtype)


@operator("TopK")
def topk(op: Operation) -> Function:
    """The largest along an axis, with their indices."""
    count = (op.ints(1, "k") or [1])[0]
    axis = op.axis(default=-1)
    largest = bool(op.attributes.get("largest", 1))
    return lambda x, *rest: tuple(torch.topk(x, count, axis, largest))
