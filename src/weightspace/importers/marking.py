"""Telling neurons from places: what a parameter connects is a neuron."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from weightspace.importers.atoms import Atom, Dim
from weightspace.importers.nesting import alternatives
from weightspace.importers.trace import Trace
from weightspace.importers.value import Value

_MOST = 4096


def core(leaves: Iterable[Atom]) -> tuple[Atom, ...]:
    """Neurons without the single elements that segments of a stack leave behind."""
    unique = tuple(dict.fromkeys(leaf for leaf in leaves if leaf.neuron))
    wide = tuple(leaf for leaf in unique if leaf.size > 1)
    return wide or unique[:1]


def mark(trace: Trace) -> None:
    """Mark the leaves that parameters connect.

    Positions that meet neurons in one dimension stay positions (flattened feature maps);
    positions that a weight sums over on their own are neurons (token mixing, raw inputs).
    """
    for value in trace.values:
        if value.kind == "constant":
            continue
        draw = value.draw
        if draw.kind == "contract":
            _mark_sides(draw.operands[1], draw.details["sides"])
            for bias in draw.operands[2:]:
                _mark_box(bias)
        elif draw.kind == "embedding":
            _mark_sides(draw.operands[0], ("source", "target"))
        elif draw.kind == "recurrent":
            _mark_cells(draw.details["steps"])
    for value in trace.values:
        if value.kind == "activation" and value.draw.kind in ("norm", "elementwise"):
            for operand in value.draw.operands:
                if operand.kind == "parameter":
                    _mark_box(operand)


def _mark_cells(steps: Iterable[tuple[Sequence[Value], Dim, Dim]]) -> None:
    """Sources first: then rows tell the hidden neurons from the gates."""
    for sides in (("feature", "source"), ("target", "feature")):
        for tensors, _, _ in steps:
            for tensor in tensors:
                _mark_sides(tensor, sides[: tensor.rank])


def _mark_sides(weight: Value, sides: Sequence[str]) -> None:
    for dim, side in zip(weight.dims, sides, strict=True):
        if side != "feature":
            for box in alternatives(dim):
                _mark(box)


def _mark_box(value: Value) -> None:
    if value.kind != "parameter":
        return
    choices = [alternatives(dim) for dim in value.dims]
    boxes = itertools.islice(itertools.product(*choices), _MOST)
    for box in boxes:
        _mark(tuple(itertools.chain(*box)))


def _mark(box: tuple[Atom, ...]) -> None:
    neurons = [leaf for leaf in box if leaf.neuron or not (leaf.plain and leaf.pin)]
    wide = [leaf for leaf in neurons if leaf.size > 1]
    for leaf in wide or neurons or box:
        leaf.neuron = True


def unmarked(dims: Iterable[Dim]) -> bool:
    """Whether no leaf of some dimensions is a neuron."""
    return not any(leaf.neuron for dim in dims for box in alternatives(dim) for leaf in box)
