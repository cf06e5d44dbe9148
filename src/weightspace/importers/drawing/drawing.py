"""Drawing a traced network: which tensor is which connection between which neurons."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from weightspace.importers.drawing.canvas import Canvas, Entries
from weightspace.importers.drawing.ends import enter, finish, hold_the_rest
from weightspace.importers.drawing.features import norm
from weightspace.importers.drawing.meeting import combine
from weightspace.importers.drawing.recurrent import recur
from weightspace.importers.drawing.weights import contract, embed
from weightspace.importers.heads import gather_heads, tie_heads
from weightspace.importers.marking import mark
from weightspace.importers.sketch import Sketch
from weightspace.importers.trace import Trace
from weightspace.importers.value import Value


def draw(trace: Trace) -> Sketch:
    """Draw every use of a parameter, then what no use holds."""
    tie_heads(trace)
    mark(trace)
    canvas = Canvas(trace)
    for value in trace.values:
        canvas.entries[value] = _draw(canvas, value)
    for value in trace.outputs:
        finish(canvas, value)
    hold_the_rest(canvas)
    return canvas.sketch


def _draw(canvas: Canvas, value: Value) -> Entries:
    """The entries of one value, by the kind of operation that made it."""
    if value.kind != "activation":
        return ()
    painter = _PAINTERS.get(value.draw.kind)
    if painter is not None:
        return painter(canvas, value)
    found = [entry for operand in value.draw.operands for entry in canvas.of(operand)]
    return canvas.relevant(value, found)


def _attend(canvas: Canvas, value: Value) -> Entries:
    """The dot product and the softmax have no parameters: the values' neurons pass."""
    query, key, content = (canvas.of(operand) for operand in value.draw.operands[:3])
    canvas.moved.update(gather_heads(canvas.sketch, query, key, content))
    return canvas.relevant(value, canvas.of(value.draw.operands[2]))


_PAINTERS: Mapping[str, Callable[[Canvas, Value], Entries]] = {
    "input": enter,
    "contract": contract,
    "norm": norm,
    "embedding": embed,
    "recurrent": recur,
    "elementwise": combine,
    "attention": _attend,
}
