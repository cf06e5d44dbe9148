"""The ends of a drawing: inputs, outputs, and what no link holds."""

from __future__ import annotations

from weightspace.graph.activations import NONE
from weightspace.importers.drawing.canvas import Canvas, Entries, keys
from weightspace.importers.drawing.holding import (
    all_targets,
    holding_of,
    meets_itself,
    row_or_column,
)
from weightspace.importers.drawing.weights import connect
from weightspace.importers.marking import core
from weightspace.importers.sketch import Entry, Key, Place
from weightspace.importers.value import Value


def enter(canvas: Canvas, value: Value) -> Entries:
    """Places for the neurons of an input, if a weight connects any."""
    result = []
    for key in keys(value):
        result.append(Entry(canvas.sketch.place(value.name, key, "input")))
    return tuple(result)


def finish(canvas: Canvas, value: Value) -> None:
    """Mark the places that outputs are read from."""
    entries = canvas.of(value)
    for key in keys(value):
        exact = [e for e in entries if set(e.place.leaves) == set(key)]
        if len(exact) > 1 or (exact and exact[0].place.role == "input"):
            exact = [Entry(canvas.sketch.source(entries, key, f"{value.name}.output"))]
        for entry in exact:
            _output(entry)
    for entry in entries:
        if all(leaf.size == 1 for leaf in entry.place.leaves):
            _output(entry)


def _output(entry: Entry) -> None:
    place = entry.place
    if place.role != "hidden" or any(not leaf.pin for leaf in place.leaves if leaf.size > 1):
        return
    place.role = "output"
    if place.activation == NONE:
        place.activation = entry.activation
    for leaf in place.leaves:
        leaf.pin = leaf.pin or "outputs have meanings of their own"
        leaf.role = leaf.role or "output"


def hold_the_rest(canvas: Canvas) -> None:
    """Regions that no link holds become features of places of their own."""
    for tensor, value in canvas.trace.tensors.items():
        if not canvas.reads.get(value):
            continue
        rest: dict[Key, Place] = {}
        for region in canvas.regions[tensor]:
            if region in canvas.held[tensor]:
                continue
            square = meets_itself(region)
            holding = holding_of(tensor, region, row_or_column if square else all_targets)
            if square:
                key = core(holding.on("source"))
                source = canvas.sketch.place(f"{tensor}.rest", key)
                connect(canvas, holding, (Entry(source),), rest, "dense", value)
                continue
            key = core(holding.on("target"))
            if key not in rest:
                rest[key] = canvas.sketch.place(f"{tensor}.rest", key)
            canvas.give(rest[key].holdings, holding)
