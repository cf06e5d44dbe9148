"""Reading and writing at indices."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from weightspace.importers.onnx.operation import Function, Operation, operator


@operator("Gather")
def gather(op: Operation) -> Function:
    """Some elements of one dimension: an embedding, a slice or a selection."""
    axis = op.axis()
    size = op.shape()[axis]
    indices = op.operand(1)
    if indices.static:
        return _known(op, axis, size)
    if axis == 0 and op.rank() == 2 and op.operand(0).example.is_floating_point():
        return lambda x, i: F.embedding(i, x)
    before = (slice(None),) * axis
    return lambda x, i: x[(*before, i)]


def _known(op: Operation, axis: int, size: int) -> Function:
    """Indices that are known: one is a selection, neighbours are a range."""
    asked = op.static(1)
    shape = tuple(asked.shape)
    flat = [n + size if n < 0 else n for n in asked.reshape(-1).tolist()]
    if any(not 0 <= n < size for n in flat):
        op.fail(f"indices below {size}", str(flat[:8]))
    if not shape:
        return lambda x, i: x.select(axis, flat[0])
    old = op.shape()
    new = (*old[:axis], *shape, *old[axis + 1 :])
    if flat and flat == list(range(flat[0], flat[0] + len(flat))):
        return lambda x, i: x.narrow(axis, flat[0], len(flat)).reshape(new)
    order = torch.tensor(flat, dtype=torch.int64)
    return lambda x, i: x.index_select(axis, order).reshape(new)


@operator("GatherElements")
def gather_elements(op: Operation) -> Function:
    """``y[i, j] = x[i, index[i, j]]``."""
    axis = op.axis()
    size = op.shape()[axis]
    return lambda x, i: torch.gather(x, axis, torch.where(i < 0, i + size, i))


@operator("GatherND")
def gather_nd(op: Operation) -> Function:
    """Elements at tuples of indices."""
    op.require("batch_dims", 0)
    return lambda x, i: x[tuple(i.unbind(-1))]


@operator("ScatterND")
def scatter_nd(op: Operation) -> Function:
    """Values written at tuples of indices."""
    op.require("reduction", "none")
    return lambda x, i, values: x.index_put(tuple(i.unbind(-1)), values)


@operator("ScatterElements")
def scatter_elements(op: Operation) -> Function:
    """Values written at indices of one dimension."""
    op.require("reduction", "none")
    axis = op.axis()
    return lambda x, i, values: torch.scatter(x, axis, i, values)


@operator("NonZero")
def non_zero(op: Operation) -> Function:
    """Where a tensor is not zero; it must be known, as the number of places depends on it."""
    op.static(0)
    return lambda x: torch.nonzero(x).t()


@operator("OneHot")
def one_hot(op: Operation) -> Function:
    """Indices as vectors of two numbers."""
    depth = (op.ints(1) or [1])[0]
    off, on = op.static(2).reshape(-1).tolist()
    axis = op.axis(default=-1, rank=op.rank() + 1)
    dtype = op.operand(2).example.dtype

    def run(x: Tensor, *rest: Any) -> Tensor:
        hot = F.one_hot(x.long() % depth, depth).to(dtype)
        moved: Tensor = (hot * (on - off) + off).movedim(-1, axis)
        return moved

    return run
