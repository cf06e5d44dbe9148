"""Recurrent cells: their state goes from a place to itself."""

from __future__ import annotations

from weightspace.importers.drawing.canvas import Canvas, Entries
from weightspace.importers.drawing.features import shift
from weightspace.importers.drawing.holding import holding_of, row_or_column
from weightspace.importers.drawing.weights import connect, weigh
from weightspace.importers.sketch import Entry
from weightspace.importers.value import Value


def recur(canvas: Canvas, value: Value) -> Entries:
    """Input and state weights of every cell; the state's go from a place to itself."""
    entries: Entries = canvas.of(value.draw.operands[0])
    previous: list[Entry] = []
    layer_source = None
    for tensors, source, out in value.draw.details["steps"]:
        if layer_source is not source:
            entries = tuple(previous) or entries
            previous, layer_source = [], source
        matrices = [t for t in tensors if t.rank == 2]
        vectors = [t for t in tensors if t.rank == 1]
        step = Value(value.name, (source,), "activation", value.draw, path=value.path)
        hidden = Value(value.name, (matrices[1].dims[0],), "activation", value.draw)
        canvas.entries[step] = entries
        made = weigh(canvas, step, matrices[0], ("target", "source"), hidden)
        for vector in vectors:
            made += shift(canvas, vector, made, hidden)
        ends = made
        if len(matrices) == 3:
            canvas.entries[hidden] = made
            end = Value(value.name, (out,), "activation", value.draw)
            ends = weigh(canvas, hidden, matrices[2], ("target", "source"), end)
        state = Value(value.name, (out,), "activation", value.draw)
        canvas.entries[state] = ends
        _state(canvas, matrices[1], state, made)
        previous.extend(ends)
    return canvas.relevant(value, previous)


def _state(canvas: Canvas, weight: Value, state: Value, made: Entries) -> None:
    targets = {entry.place.leaves: entry.place for entry in made}
    for tensor in sorted(weight.roots):
        for region in canvas.regions[tensor]:
            holding = holding_of(tensor, region, row_or_column)
            connect(canvas, holding, canvas.entries[state], targets, "recurrent", state)
