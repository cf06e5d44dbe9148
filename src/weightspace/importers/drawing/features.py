"""Norms, gates and added parameters: diagonal blocks and features of places."""

from __future__ import annotations

from weightspace.graph.activations import NONE
from weightspace.importers.drawing.canvas import Canvas, Entries, keys, stem
from weightspace.importers.drawing.holding import (
    all_shared,
    all_targets,
    holding_of,
    meets_itself,
    on_features,
    on_target,
)
from weightspace.importers.marking import core
from weightspace.importers.sketch import Entry, Holding, Key, Place
from weightspace.importers.value import Value


def norm(canvas: Canvas, value: Value) -> Entries:
    """Draw the scale and the shifts of a norm."""
    x = value.draw.operands[0]
    entries = canvas.of(x)
    weight, shifts = value.draw.details["weight"], value.draw.details["shifts"]
    if weight is not None and weight.kind == "parameter":
        entries = scale(canvas, entries, weight, value)
    elif shifts:
        entries = _open(canvas, entries, value)
    for bias in shifts:
        if bias.kind == "parameter":
            entries += shift(canvas, bias, entries, value)
    return canvas.relevant(value, entries)


def _open(canvas: Canvas, entries: Entries, value: Value) -> Entries:
    """New places after a value's, for features of their own."""
    made = []
    for key in keys(value):
        source = canvas.sketch.source(entries, key, f"{value.path or value.name}.source")
        place = canvas.sketch.place(value.path or value.name, key)
        canvas.sketch.identity(source, place)
        made.append(Entry(place))
    return tuple(made)


def scale(canvas: Canvas, entries: Entries, weight: Value, value: Value) -> Entries:
    """Multiply by parameters: a diagonal block into a new place."""
    cached = ("scale", weight.roots, weight.kept, tuple(keys(value)))
    if cached in canvas.called:
        return canvas.called[cached]
    made: dict[Key, Place] = {}
    for tensor in sorted(weight.roots):
        for region in canvas.reached(weight, tensor):
            if meets_itself(region):
                continue
            holding = holding_of(tensor, region, all_shared)
            key = core(holding.on("shared"))
            wide = any(leaf.size > 1 for leaf in key)
            if not wide and not any(set(e.place.leaves) == set(key) for e in entries):
                _attach(canvas, holding, entries, value)
                continue
            if key not in made:
                made[key] = canvas.sketch.place(stem(tensor), key)
            source = canvas.sketch.source(entries, key, f"{value.path or value.name}.source")
            link = canvas.sketch.link(tensor, source, made[key], "diagonal", key)
            canvas.give(link.holdings, holding)
    stay = [e for e in entries if not any(set(k) >= set(e.place.leaves) for k in made)]
    canvas.called[cached] = (*stay, *(Entry(place) for place in made.values()))
    return canvas.called[cached]


def shift(canvas: Canvas, bias: Value, entries: Entries, value: Value) -> Entries:
    """Add parameters: features of the places that they are added to."""
    if bias.kind != "parameter":
        return ()
    more: list[Entry] = []
    for tensor in sorted(bias.roots):
        for region in canvas.reached(bias, tensor):
            if region not in canvas.held[tensor] and not meets_itself(region):
                holding = holding_of(tensor, region, all_targets)
                more.extend(_attach(canvas, holding, (*entries, *more), value))
    return tuple(more)


def _attach(canvas: Canvas, holding: Holding, entries: Entries, value: Value) -> Entries:
    """Give a place a feature; a place with these neurons is made if there is none."""
    key = core(holding.on("target", "shared"))
    exact = [e for e in entries if set(e.place.leaves) == set(key)]
    if exact and exact[-1].activation == NONE and exact[-1].place.role == "hidden":
        place = exact[-1].place
        canvas.give(place.holdings, on_target(holding))
        return ()
    near = [e for e in entries if set(e.place.leaves) & set(key)]
    alone = all(leaf.size == 1 for leaf in key)
    if alone and not near and entries and entries[-1].place.role == "hidden":
        # One number for all neurons is a feature of each.
        canvas.give(entries[-1].place.holdings, on_features(holding))
        return ()
    place = canvas.sketch.place(stem(holding.tensor), key)
    for source in dict.fromkeys(canvas.sketch.read(entry) for entry in near[-4:]):
        canvas.sketch.identity(source, place)
    canvas.give(place.holdings, on_target(holding))
    return (Entry(place),)
