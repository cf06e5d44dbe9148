"""Convolutions and their transposes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from weightspace.importers.onnx.operation import Function, Operation, operator
from weightspace.importers.onnx.operators.windows import window

_CONVOLVE: dict[int, Callable[..., Tensor]] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED: dict[int, Callable[..., Tensor]] = {
    1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d,
}  # fmt: skip


@operator("Conv")
def conv(op: Operation) -> Function:
    """A convolution over one, two or three dimensions."""
    spatial = _spatial(op)
    w = window(op, op.shape(1)[2:])
    groups = int(op.attributes.get("group", 1))
    function = _CONVOLVE[spatial]

    def run(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if not w.symmetric:
            return function(F.pad(x, w.padding), weight, bias, w.stride, 0, w.dilation, groups)
        return function(x, weight, bias, w.stride, w.before, w.dilation, groups)

    return run


@operator("ConvTranspose")
def conv_transpose(op: Operation) -> Function:
    """A transposed convolution; paddings cut its result."""
    spatial = _spatial(op)
    w = window(op, op.shape(1)[2:])
    groups = int(op.attributes.get("group", 1))
    function = _TRANSPOSED[spatial]
    extra = [int(n) for n in op.attributes.get("output_padding", [0] * spatial)]
    before, after = _cuts(op, w, extra)
    # What torch cuts at both ends is one number; the rest is cut here.
    shared = tuple(max(0, min(pair)) for pair in zip(before, after, strict=True))
    if before == after and min(before, default=0) >= 0:
        return lambda x, weight, bias=None: function(
            x, weight, bias, w.stride, shared, tuple(extra), groups, w.dilation
        )
    whole = [
        (size - 1) * s + (k - 1) * d + 1 + e
        for size, s, k, d, e in zip(
            op.shape()[2:], w.stride, w.kernel, w.dilation, extra, strict=True
        )
    ]
    if min(*before, *after) < 0:
        op.fail("an output_shape that the strides can fill", str(op.attributes))

    def run(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        y = function(x, weight, bias, w.stride, 0, tuple(extra), groups, w.dilation)
        for i, (a, b) in enumerate(zip(before, after, strict=True)):
            y = y.narrow(2 + i, a, whole[i] - a - b)
        return y

    return run


def _cuts(op: Operation, w: Any, extra: list[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How much is cut off at the start and at the end of each dimension."""
    auto = str(op.attributes.get("auto_pad", "NOTSET"))
    wanted = op.attributes.get("output_shape")
    if wanted is not None:
        wanted = [int(n) for n in wanted][-len(w.kernel) :]
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [size * s for size, s in zip(op.shape()[2:], w.stride, strict=True)]
    else:
        return w.before, w.after
    ends = []
    for i, size in enumerate(wanted):
        span = (w.kernel[i] - 1) * w.dilation[i] + 1
        total = w.stride[i] * (op.shape()[2 + i] - 1) + extra[i] + span - size
        half = total // 2
        ends.append((half, total - half) if auto == "SAME_UPPER" else (total - half, half))
    return tuple(a for a, _ in ends), tuple(b for _, b in ends)


def _spatial(op: Operation) -> int:
    spatial = op.rank() - 2
    if spatial not in _CONVOLVE or op.rank(1) != op.rank():
        op.fail("one, two or three spatial dimensions", f"{spatial}")
    return spatial
