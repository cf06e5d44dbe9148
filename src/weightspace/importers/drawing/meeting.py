"""Elementwise functions: of neurons, of several values' neurons, and of parameters."""

from __future__ import annotations

from collections.abc import Sequence

from weightspace.graph.activations import LAWS, NONE, Activation
from weightspace.importers.drawing.canvas import Canvas, Entries, keys
from weightspace.importers.drawing.features import scale, shift
from weightspace.importers.sketch import Entry
from weightspace.importers.value import Value

_NEUTRAL = frozenset(
    {
        "clone", "_to_copy", "to", "contiguous", "alias", "detach", "dropout", "native_dropout",
        "lift_fresh_copy", "type_as", "masked_fill", "where", "nan_to_num", "lift_fresh", "softmax"
    }
)  # fmt: skip
_ARITHMETIC = frozenset({"mul", "div", "neg", "add", "sub", "rsub", "clamp"})
_DEFAULTS: dict[str, tuple[float, ...]] = {
    "hardtanh": (-1.0, 1.0),
    "elu": (1.0, 1.0, 1.0),
    "celu": (1.0,),
    "softplus": (1.0, 20.0),
}
"""The arguments with which a function is the one that its name stands for."""
_NAMES = {"sin": "sine", "softmax": "none"}


def combine(canvas: Canvas, value: Value) -> Entries:
    """Draw what meets in an elementwise function: neurons first, then parameters."""
    function = value.draw.details["function"]
    operands = value.draw.operands
    neurons = [v for v in operands if v.kind == "activation" and canvas.of(v)]
    entries = _meet(canvas, value, neurons, function)
    if any(v.kind == "activation" for v in operands):
        for operand in operands:
            if operand.kind == "parameter" and operand.roots:
                if function in ("mul", "div"):
                    entries = scale(canvas, entries, operand, value)
                else:
                    entries = _replaced(entries, shift(canvas, operand, entries, value))
    return canvas.relevant(value, entries)


def _replaced(entries: Entries, more: Entries) -> Entries:
    """A new place with added features stands for the one it follows."""
    new = {frozenset(entry.place.leaves) for entry in more}
    return (*(e for e in entries if frozenset(e.place.leaves) not in new), *more)


def _meet(canvas: Canvas, value: Value, neurons: list[Value], function: str) -> Entries:
    if not neurons:
        return ()
    if len(neurons) == 1:
        applied = [_apply(e, function, value) for e in canvas.of(neurons[0])]
        return tuple(applied)
    sets = [canvas.of(v) for v in neurons]
    places = [tuple(e.place for e in entries) for entries in sets]
    if all(own == places[0] for own in places):
        plain = all(e.activation == NONE for entries in sets for e in entries)
        after = NONE if plain and function in ("add", "sub") else Activation("unknown")
        return tuple(Entry(place, after) for place in places[0])
    return _join(canvas, value, neurons, function)


def _join(canvas: Canvas, value: Value, neurons: list[Value], function: str) -> Entries:
    """A sum or product of different neurons: a place that both lead to."""
    entries = tuple(dict.fromkeys(e for v in neurons for e in canvas.of(v)))
    result: list[Entry] = []
    for key in keys(value):
        exact = [e for e in entries if set(e.place.leaves) == set(key)]
        if len(exact) < 2:
            continue
        if function == "add" and _is_fresh(canvas, neurons[-1], exact[-1]):
            last = exact[-1].place
        elif function == "add" and _is_fresh(canvas, neurons[0], exact[0]):
            exact = exact[::-1]
            last = exact[-1].place
        else:
            place = canvas.sketch.source(entries, key, f"{value.path or 'network'}.{function}")
            result.append(Entry(place))
            continue
        for source in dict.fromkeys(canvas.sketch.read(e) for e in exact[:-1]):
            canvas.sketch.identity(source, last)
        result.append(Entry(last))
    done = [set(entry.place.leaves) for entry in result]
    return (*(e for e in entries if set(e.place.leaves) not in done), *result)


def _is_fresh(canvas: Canvas, value: Value, entry: Entry) -> bool:
    """Whether nothing else reads a layer's output, so that a sum can be drawn into it."""
    if entry.activation != NONE or entry.place.read_plain or entry.place.role != "hidden":
        return False
    while canvas.reads.get(value, 0) == 1:
        if value.draw.kind in ("contract", "norm"):
            return True
        acts = [v for v in value.draw.operands if v.kind == "activation"]
        if len(acts) != 1 or value.draw.kind not in ("pass", "elementwise"):
            return False
        value = acts[0]
    return False


def _apply(entry: Entry, function: str, value: Value) -> Entry:
    """An entry after a function of each neuron.

    What a name cannot say (another slope, a factor before a function that is not sine) is
    unknown: networks are run by these names.
    """
    numbers: Sequence[float] = value.draw.details.get("numbers", ())
    if function in _NEUTRAL:
        return Entry(entry.place, entry.activation, entry.scale)
    if function in _ARITHMETIC:
        return _calculate(entry, function, numbers, alone=len(value.draw.operands) == 1)
    name = _NAMES.get(function, function)
    if entry.activation != NONE or name not in LAWS:
        return Entry(entry.place, Activation("unknown"))
    return Entry(entry.place, _named(name, numbers, entry.scale))


def _calculate(entry: Entry, function: str, numbers: Sequence[float], *, alone: bool) -> Entry:
    """An entry after arithmetic with a number, or with a parameter that is drawn itself."""
    place, activation, factor = entry.place, entry.activation, entry.scale
    if not alone:
        return entry
    if activation == NONE and function == "neg":
        return Entry(place, activation, -factor)
    if activation == NONE and numbers and function == "mul":
        return Entry(place, activation, factor * numbers[0])
    if activation == NONE and numbers and function == "div" and numbers[0]:
        return Entry(place, activation, factor / numbers[0])
    once = tuple(numbers[1:]) in ((), (1,))  # how often the number is added
    if activation == NONE and factor == 1.0 and once and function in ("add", "sub"):
        offset = numbers[0] if function == "add" else -numbers[0]
        return Entry(place, Activation.of("offset", value=float(offset)))
    return Entry(place, Activation("unknown"))


def _named(name: str, numbers: Sequence[float], factor: float) -> Activation:
    if name == "sine":
        return Activation.of("sine", w0=float(factor))
    if factor != 1.0:
        return Activation("unknown")
    if name == "leaky_relu" and numbers:
        return Activation.of("leaky_relu", negative_slope=float(numbers[0]))
    plain = tuple(map(float, numbers)) == _DEFAULTS.get(name, ())[: len(numbers)]
    return Activation(name) if plain else Activation("unknown")
