"""Pooling over windows and over all places."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from weightspace.importers.onnx.operation import Function, Operation, operator
from weightspace.importers.onnx.operators.windows import Window, window

_MAXIMUM: dict[int, Callable[..., Tensor]] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_AVERAGE: dict[int, Callable[..., Tensor]] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


@operator("MaxPool")
def max_pool(op: Operation) -> Function:
    """The largest value of each window."""
    function, w, ceil = _MAXIMUM[_spatial(op)], _window(op), bool(op.attributes.get("ceil_mode"))
    inside = w.symmetric and all(2 * p <= k for p, k in zip(w.before, w.kernel, strict=True))

    def run(x: Tensor) -> Tensor:
        pad = w.before if inside else 0
        x = x if inside else F.pad(x, w.padding, value=-torch.inf)
        return function(x, w.kernel, w.stride, pad, w.dilation, ceil_mode=ceil)

    return run


@operator("AveragePool")
def average_pool(op: Operation) -> Function:
    """The mean of each window, with or without the padding."""
    function, w, ceil = _AVERAGE[_spatial(op)], _window(op), bool(op.attributes.get("ceil_mode"))
    counted = bool(op.attributes.get("count_include_pad", 0))
    if any(d != 1 for d in w.dilation):
        op.fail("windows without gaps", f"dilations {w.dilation}")
    if w.symmetric and all(2 * p <= k for p, k in zip(w.before, w.kernel, strict=True)):
        return lambda x: function(x, w.kernel, w.stride, w.before, ceil, counted)
    sizes = op.shape()[2:]

    def run(x: Tensor) -> Tensor:
        mean = function(F.pad(x, w.padding), w.kernel, w.stride, 0, ceil)
        if counted:
            return mean
        ones = F.pad(torch.ones(1, 1, *sizes, dtype=x.dtype), w.padding)
        return mean / function(ones, w.kernel, w.stride, 0, ceil)

    return run


@operator("GlobalAveragePool", "GlobalMaxPool")
def global_pool(op: Operation) -> Function:
    """The mean or the largest of all places."""
    places = tuple(range(2, op.rank()))
    if op.kind == "GlobalMaxPool":
        return lambda x: x.amax(places, keepdim=True)
    return lambda x: x.mean(places, keepdim=True)


def _window(op: Operation) -> Window:
    return window(op, [int(n) for n in op.attributes.get("kernel_shape", ())])


def _spatial(op: Operation) -> int:
    spatial = op.rank() - 2
    if spatial not in _MAXIMUM or len(op.attributes.get("kernel_shape", ())) != spatial:
        op.fail("a window over one, two or three dimensions", f"{op.attributes}")
    return spatial
