"""Boxes in images: which of them are kept, and what lies in them; channels pass."""

from __future__ import annotations

from weightspace.importers.call import Call, Result, pin, place, rule
from weightspace.importers.value import Value


@rule("nms")
def suppress(call: Call) -> Result:
    """The indices of the boxes that no better box overlaps: all operands are fixed."""
    return call.opaque("the best of them are kept")


@rule("roi_align", "roi_pool")
def cut_out(call: Call) -> Result:
    """``y[box, channel, i, j]``: every channel is sampled at the same places."""
    x, boxes = call.tensors
    for dim in (x.dims[0], *x.dims[2:], *boxes.dims):
        pin(dim, "positions")
    results: list[Value] = []
    for output, shape in enumerate(call.shapes):
        assert shape is not None
        places = [place(size, "positions") for size in shape]
        results.append(call.make([places[0], x.dims[1], *places[2:]], output=output))
    return results[0] if len(results) == 1 else tuple(results)
