"""Drawing self-attention as one block with three features a connection."""

from __future__ import annotations

from weightspace.importers.atoms import Atom, flat, merge
from weightspace.importers.sketch import Entry, Link, Place, Sketch
from weightspace.importers.trace import Trace
from weightspace.importers.value import Value

Entries = tuple[Entry, ...]


def tie_heads(trace: Trace) -> None:
    """Tie the features of queries and keys with those of values, where one block can hold them.

    Kofinas et al. 2024, section 3.3: an edge from an input to a head's neuron carries the
    entries of W_Q, W_K and W_V. Its neurons are then permuted together in all three; that
    queries and keys may move apart from values is part of the general linear symmetries.
    Where something fixes the queries' features (rotary positions) nothing is tied, so that
    the values keep their freedom.
    """
    for value in trace.values:
        if value.draw.kind != "attention":
            continue
        query, key, content = value.draw.operands[:3]
        sources = [_layer_input(v) for v in (query, key, content)]
        if sources[0] is None or any(source is not sources[0] for source in sources):
            continue
        if query.shape[-1] != content.shape[-1] or query.shape[1:-2] != key.shape[1:-2]:
            continue
        one, two = _leaf(query), _leaf(content)
        if one is not None and two is not None and not one.pin and not two.pin:
            merge(one, two)


def _leaf(value: Value) -> Atom | None:
    """A value's features, if they are one leaf."""
    dim = flat(value.dims[-1])
    return dim[0] if len(dim) == 1 and dim[0].bound is None else None


def _layer_input(value: Value) -> Value | None:
    """What the linear layer that made a value reads, if only rearrangements lie between."""
    while value.draw.kind == "pass" and len(value.draw.operands) == 1:
        value = value.draw.operands[0]
    return value.draw.operands[0] if value.draw.kind == "contract" else None


def gather_heads(
    sketch: Sketch, query: Entries, key: Entries, content: Entries
) -> dict[Place, Place]:
    """Draw three layers that attention joins as one, if they have the same ends.

    Returns:
        The places that were taken up into another, with that one.
    """
    ends = [entries[0].place for entries in (query, key, content) if len(entries) == 1]
    if len(ends) != 3 or any(set(end.leaves) != set(ends[0].leaves) for end in ends):
        return {}
    distinct = list(dict.fromkeys(ends))
    incoming = [[link for link in sketch.links if link.target is end] for end in distinct]
    if any(len(links) != 1 or links[0].kind != "dense" for links in incoming):
        return {}
    links = [own[0] for own in incoming]
    if len(distinct) == 1:
        if len(links[0].holdings) == 3:
            links[0].kind = "attention"
        return {}
    if len(distinct) != 3 or any(link.source is not links[0].source for link in links):
        return {}
    return _merge(sketch, distinct, links)


def _merge(sketch: Sketch, places: list[Place], links: list[Link]) -> dict[Place, Place]:
    first, link = places[0], links[0]
    prefix = _common([place.name for place in places])
    if prefix:
        first.name = sketch.rename(first.name, f"{prefix}.heads")
    link.kind = "attention"
    for place, other in zip(places[1:], links[1:], strict=True):
        first.holdings.extend(place.holdings)
        link.holdings.extend(other.holdings)
        sketch.places.remove(place)
        sketch.links.remove(other)
    return dict.fromkeys(places[1:], first)


def _common(names: list[str]) -> str:
    """The module path that all names start with."""
    parts = [name.split(".") for name in names]
    shared = []
    for column in zip(*parts, strict=False):
        if len(set(column)) > 1:
            break
        shared.append(column[0])
    return ".".join(shared)
