"""Operations that rearrange, cut, join and fill."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from weightspace.importers.onnx.operation import Function, Operation, operator, torch_type


@operator("Shape")
def shape(op: Operation) -> Function:
    """The sizes of a tensor, or of a range of its dimensions."""
    sizes = op.shape()[op.attributes.get("start", 0) : op.attributes.get("end")]
    return lambda x: torch.tensor(sizes, dtype=torch.int64)


@operator("Size")
def size(op: Operation) -> Function:
    """The number of elements."""
    count = op.operand(0).example.numel()
    return lambda x: torch.tensor(count, dtype=torch.int64)


@operator("Constant")
def constant(op: Operation) -> Function:
    """Numbers in the graph; read where the graph is built."""
    op.fail("a constant read before", "one that is computed")


@operator("ConstantOfShape")
def constant_of_shape(op: Operation) -> Function:
    """One number everywhere."""
    sizes, value = op.ints(0) or [], op.attributes.get("value")
    if value is None:
        return lambda x: torch.zeros(sizes)
    from onnx import numpy_helper  # noqa: PLC0415 (an extra)

    number = torch.from_numpy(np.array(numpy_helper.to_array(value))).reshape(-1)[0]
    return lambda x: torch.full(sizes, number.item(), dtype=number.dtype)


@operator("Range")
def range_(op: Operation) -> Function:
    """Numbers at equal distances."""
    start, stop, step = (op.static(i).item() for i in range(3))
    dtype = op.operand(0).example.dtype
    if step == 0 or (stop - start) / step > 2**28:
        op.fail("a range of ordinary length", f"{start} to {stop} by {step}")
    if (stop - start) / step <= 0:
        return lambda *rest: torch.zeros(0, dtype=dtype)
    return lambda *rest: torch.arange(start, stop, step, dtype=dtype)


@operator("Reshape")
def reshape(op: Operation) -> Function:
    """Row-major; 0 keeps a size and -1 is what is left."""
    asked = op.ints(1, "shape") or []
    old = op.shape()
    if not op.attributes.get("allowzero"):
        if any(n == 0 and i >= len(old) for i, n in enumerate(asked)):
            op.fail("zeros only where there is a size to keep", str(asked))
        asked = [old[i] if n == 0 else n for i, n in enumerate(asked)]
    return lambda x, *rest: x.reshape(asked)


@operator("Flatten")
def flatten(op: Operation) -> Function:
    """Two dimensions: those before an axis and those from it on."""
    axis = op.axis(default=1)
    outer = int(np.prod(op.shape()[:axis], dtype=np.int64))
    return lambda x: x.reshape(outer, -1)


@operator("Transpose")
def transpose(op: Operation) -> Function:
    """Dimensions in another order, reversed if none is given."""
    order = op.attributes.get("perm") or list(reversed(range(op.rank())))
    return lambda x: x.permute(tuple(order))


@operator("Squeeze")
def squeeze(op: Operation) -> Function:
    """Dimensions of size one removed."""
    sizes = op.shape()
    asked = op.ints(1, "axes")
    axes = [i for i, n in enumerate(sizes) if n == 1] if asked is None else asked
    gone = tuple(op.positive(axis, len(sizes)) for axis in axes)
    if any(sizes[axis] != 1 for axis in gone):
        op.fail("dimensions of size one", f"sizes {[sizes[axis] for axis in gone]}")
    return lambda x, *rest: x.squeeze(gone) if gone else x


@operator("Unsqueeze")
def unsqueeze(op: Operation) -> Function:
    """New dimensions of size one, at places of the result."""
    axes = op.ints(1, "axes") or []
    rank = op.rank() + len(axes)
    places = sorted(op.positive(axis, rank) for axis in axes)

    def run(x: Tensor, *rest: Tensor) -> Tensor:
        for axis in places:
            x = x.unsqueeze(axis)
        return x

    return run


@operator("Concat")
def concat(op: Operation) -> Function:
    """Tensors one after another."""
    axis = op.axis(default=1)
    return lambda *values: torch.cat(values, axis)


@operator("Split")
def split(op: Operation) -> Function:
    """Ranges of one dimension, of equal sizes if none are given."""
    axis = op.axis()
    total, count = op.shape()[axis], len(op.outputs)
    sizes = op.ints(1, "split")
    if sizes is None:
        count = int(op.attributes.get("num_outputs", count))
        each = -(-total // count)
        sizes = [max(0, min(each, total - i * each)) for i in range(count)]
    if sum(sizes) != total:
        op.fail(f"ranges that add up to {total}", str(sizes))
    starts = [0, *accumulate(sizes)]
    return lambda x, *rest: tuple(
        x.narrow(axis, start, n) for start, n in zip(starts, sizes, strict=False)
    )


@operator("Slice")
def slice_(op: Operation) -> Function:
    """Ranges of some dimensions, forwards or backwards."""
    sizes = op.shape()
    starts, ends = op.ints(1, "starts") or [], op.ints(2, "ends") or []
    axes = op.ints(3, "axes") or list(range(len(starts)))
    steps = op.ints(4, "steps") or [1] * len(starts)
    index = [slice(None)] * len(sizes)
    turned = []
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        at = op.positive(axis, len(sizes))
        picked = range(*slice(start, end, step).indices(sizes[at]))
        if step > 0:
            index[at] = slice(picked.start, max(picked.start, picked.stop), step)
            continue
        turned.append(at)
        last = sizes[at] - 1
        first = last - picked.start
        index[at] = slice(first, first + max(1, -step * len(picked)) if picked else first, -step)

    def run(x: Tensor, *rest: Tensor) -> Tensor:
        x = x.flip(turned) if turned else x
        return x[tuple(index)]

    return run


@operator("Pad")
def pad(op: Operation) -> Function:
    """Numbers, mirrored or repeated values around a tensor."""
    mode = str(op.attributes.get("mode", "constant"))
    op.require("mode", "constant", "reflect", "edge", "wrap")
    pads = op.ints(1, "pads") or op.ints(None, "paddings") or []
    value = (op.number(2, "value") or 0.0) if mode == "constant" else 0.0
    rank = op.rank()
    axes = [op.positive(a, rank) for a in op.ints(3) or range(rank)]
    if len(pads) != 2 * len(axes):
        op.fail(f"{2 * len(axes)} paddings", str(pads))
    ends = {axis: (pads[i], pads[i + len(axes)]) for i, axis in enumerate(axes)}
    order = [n for axis in reversed(range(rank)) for n in ends.get(axis, (0, 0))]
    while len(order) > 2 and order[-2:] == [0, 0]:
        order = order[:-2]
    torch_mode = {"edge": "replicate", "wrap": "circular"}.get(mode, mode)
    whole = not op.operand(0).example.is_floating_point()
    fill = int(value) if whole else value
    if torch_mode == "constant":
        return lambda x, *rest: F.pad(x, order, value=fill)
    return lambda x, *rest: F.pad(x, order, mode=torch_mode)


@operator("Expand")
def expand(op: Operation) -> Function:
    """Copies along dimensions of size one, as broadcasting has it."""
    sizes = np.broadcast_shapes(op.shape(), tuple(op.ints(1) or []))
    return lambda x, *rest: x.expand(sizes)


@operator("Tile")
def tile(op: Operation) -> Function:
    """Whole copies one after another."""
    repeats = op.ints(1) or []
    return lambda x, *rest: x.repeat(repeats)


@operator("DepthToSpace", "SpaceToDepth")
def shuffle(op: Operation) -> Function:
    """Channels to places and back."""
    block = int(op.attributes["blocksize"])
    batch, channels, *places = op.shape()
    if op.kind == "SpaceToDepth":
        h, w = (n // block for n in places)
        old, order = (batch, channels, h, block, w, block), (0, 3, 5, 1, 2, 4)
        new: Sequence[int] = (batch, channels * block * block, h, w)
    else:
        h, w = places
        inner = channels // block**2
        new = (batch, inner, h * block, w * block)
        if op.attributes.get("mode", "DCR") == "CRD":
            return lambda x: F.pixel_shuffle(x, block)
        old, order = (batch, block, block, inner, h, w), (0, 3, 4, 1, 5, 2)
    return lambda x: x.reshape(old).permute(order).reshape(tuple(new))


@operator("Trilu")
def triangle(op: Operation) -> Function:
    """The upper or lower triangle of a matrix."""
    diagonal = (op.ints(1) or [0])[0]
    function = torch.triu if op.attributes.get("upper", 1) else torch.tril
    return lambda x, *rest: function(x, diagonal)


@operator("EyeLike")
def eye(op: Operation) -> Function:
    """The unit matrix of a tensor's shape."""
    rows, columns = op.shape()
    op.require("k", 0)
    dtype = torch_type(op.attributes.get("dtype", 0)) or op.operand(0).example.dtype
    return lambda x: torch.eye(rows, columns, dtype=dtype)
