"""Sliding windows: paddings, strides and dilations as ONNX declares them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weightspace.importers.onnx.operation import Operation


@dataclass(frozen=True, slots=True)
class Window:
    """How a window moves over the spatial dimensions.

    Args:
        kernel: its size along each dimension.
        stride: how far it moves.
        dilation: the distance of its elements.
        before: padding at the start of each dimension.
        after: padding at the end.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def symmetric(self) -> bool:
        """Whether the paddings at both ends are equal."""
        return self.before == self.after

    @property
    def padding(self) -> list[int]:
        """The paddings in torch's order, last dimension first."""
        pairs = zip(reversed(self.before), reversed(self.after), strict=True)
        return [n for pair in pairs for n in pair]


def window(op: Operation, kernel: Sequence[int]) -> Window:
    """Read the window of a convolution or a pooling."""
    spatial = len(kernel)
    stride = _sizes(op, "strides", [1] * spatial)
    dilation = _sizes(op, "dilations", [1] * spatial)
    auto = str(op.attributes.get("auto_pad", "NOTSET"))
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        ends = [
            _same(size, k, s, d, upper=auto == "SAME_UPPER")
            for size, k, s, d in zip(op.shape()[2:], kernel, stride, dilation, strict=True)
        ]
        before, after = [a for a, _ in ends], [b for _, b in ends]
    elif auto in ("NOTSET", "", "VALID"):
        pads = [0] * 2 * spatial
        if auto != "VALID":
            pads = _sizes(op, "pads", pads)
        before, after = pads[:spatial], pads[spatial:]
    else:
        op.fail("a known auto_pad", auto)
    return Window(tuple(kernel), tuple(stride), tuple(dilation), tuple(before), tuple(after))


def _sizes(op: Operation, name: str, default: list[int]) -> list[int]:
    found = [int(n) for n in op.attributes.get(name, default)]
    if len(found) != len(default):
        op.fail(f"{len(default)} numbers as {name}", str(found))
    return found


def _same(size: int, kernel: int, stride: int, dilation: int, *, upper: bool) -> tuple[int, int]:
    """Paddings that give ``ceil(size / stride)`` places."""
    places = -(-size // stride)
    total = max((places - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return (total // 2, total - total // 2) if upper else (total - total // 2, total // 2)
