"""Weighted sums: the links that a weight draws between places."""

from __future__ import annotations

from collections.abc import Sequence

from weightspace.graph.binding import Side
from weightspace.graph.spec import BlockKind
from weightspace.importers.atoms import Atom, leaves
from weightspace.importers.drawing.canvas import Canvas, Entries, keys, stem
from weightspace.importers.drawing.features import shift
from weightspace.importers.drawing.holding import holding_of, on_side, side_of
from weightspace.importers.marking import core
from weightspace.importers.regions import Region
from weightspace.importers.sketch import Entry, Holding, Key, Place
from weightspace.importers.value import Value


def contract(canvas: Canvas, value: Value) -> Entries:
    """Draw a weighted sum and its biases; neurons that it does not sum over stay."""
    x, weight, *rest = value.draw.operands
    sides = value.draw.details["sides"]
    made = weigh(canvas, x, weight, sides, value)
    for bias in rest:
        made += shift(canvas, bias, made, value)
    stay = [e for e in canvas.of(x) if not set(e.place.leaves) & on_side(weight, sides, "source")]
    return canvas.relevant(value, [*stay, *made])


def embed(canvas: Canvas, value: Value) -> Entries:
    """Draw a table as links from a place of tokens."""
    table = value.draw.operands[0]
    for tensor in sorted(table.roots):
        for region in canvas.reached(table, tensor):
            tokens = core(region[0].leaves)
            key = ("tokens", tensor, tokens)
            if tokens and key not in canvas.called:
                place = canvas.sketch.place(f"{stem(tensor)}.tokens", tokens, "input")
                canvas.called[key] = (Entry(place),)
    own = tuple(
        entry
        for key, entries in canvas.called.items()
        if key[0] == "tokens" and key[1] in table.roots
        for entry in entries
    )
    ids = Value("tokens", (table.dims[0],), "activation", value.draw, path=value.path)
    canvas.entries[ids] = own
    return weigh(canvas, ids, table, ("source", "target"), value)


def weigh(canvas: Canvas, x: Value, weight: Value, sides: Sequence[str], value: Value) -> Entries:
    """Draw the links of one weight; a weight that is used again is drawn once."""
    key = ("weight", weight.roots, weight.kept, tuple(keys(value)))
    if key in canvas.called:
        return canvas.now(canvas.called[key])
    kind: BlockKind = "embedding" if value.draw.kind == "embedding" else "dense"
    sources = canvas.of(x)
    made: dict[Key, Place] = {}
    for tensor in sorted(weight.roots):
        for region in canvas.reached(weight, tensor):
            holding = _placed(canvas, tensor, region, weight, sides, x, value)
            connect(canvas, holding, sources, made, kind, x)
    canvas.called[key] = tuple(Entry(place) for place in made.values())
    return canvas.called[key]


def connect(  # noqa: PLR0917
    canvas: Canvas, holding: Holding, sources: Entries, made: dict[Key, Place], kind: BlockKind,
    x: Value,
) -> None:  # fmt: skip
    """Let the link between a region's two ends hold it; ends and link are made if new."""
    shared = holding.on("shared")
    target_key = core((*shared, *holding.on("target")))
    source_key = core((*shared, *holding.on("source")))
    name = stem(holding.tensor)
    if target_key not in made:
        made[target_key] = canvas.sketch.place(name, target_key)
    target = made[target_key]
    source = canvas.sketch.source(sources, source_key, f"{x.path or name}.source")
    for link in reversed(canvas.sketch.links):
        if link.source is source and link.target is target and link.holdings:
            break
    else:
        own: BlockKind = kind
        if shared and kind == "dense":
            bare = not holding.on("target") and not holding.on("source")
            own = "diagonal" if bare else "grouped"
        link = canvas.sketch.link(holding.tensor, source, target, own, shared)
    canvas.give(link.holdings, holding)


def _placed(  # noqa: PLR0917
    canvas: Canvas, tensor: str, region: Region, weight: Value, sides: Sequence[str], x: Value,
    value: Value,
) -> Holding:  # fmt: skip
    """Decide the side of every part of a region of a weight."""
    sources, targets = on_side(weight, sides, "source"), on_side(weight, sides, "target")
    before = {leaf for dim in x.dims for leaf in leaves(dim)}
    after = {leaf for dim in value.dims for leaf in leaves(dim)}

    def side(leaf: Atom, dim: int) -> Side:
        found = side_of(leaf, (tensor, dim), weight, sides)
        if found == "target" and leaf in before and leaf not in sources:
            return "shared"
        if found == "source" and leaf in after and leaf not in targets:
            return "shared"
        return found

    return holding_of(tensor, region, side)
