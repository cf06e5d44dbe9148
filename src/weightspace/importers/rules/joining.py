"""Values one after another: concatenations, stacks, paddings, repetitions."""

from __future__ import annotations

from weightspace.importers.atoms import Atom, Dim, concat, is_loose, narrow
from weightspace.importers.call import (
    Call,
    Result,
    flat,
    pin,
    place,
    positive,
    rule,
    unify,
)
from weightspace.importers.value import NO_ORIGIN, Origin, origins_of


@rule("cat", "concat", "concatenate")
def cat(call: Call) -> Result:
    """A sum of segments along one dimension; the others are tied."""
    alike = [v for v in call.tensors if len(v.shape) == len(call.shape)]
    full = [v for v in alike if 0 not in v.shape]
    if not full:
        return call.make([place(size, "empty") for size in call.shape], alike)
    at = positive(call["dim"] or 0, len(call.shape))
    dims: list[Dim] = []
    for i in range(len(call.shape)):
        if i == at:
            dims.append(concat([v.dims[i] for v in full]))
            continue
        chosen = next((v.dims[i] for v in full if flat(v.dims[i])), full[0].dims[i])
        for value in full:
            unify(chosen, value.dims[i])
        dims.append(chosen)
    return call.make(dims, full)


@rule("stack")
def stack(call: Call) -> Result:
    """A new dimension, each element of which is a segment of its own."""
    values = call.tensors
    at = positive(call["dim"] or 0, len(call.shape))
    rest = [i for i in range(len(call.shape)) if i != at]
    dims: list[Dim] = [()] * len(call.shape)
    for i, place_ in enumerate(rest):
        dims[place_] = values[0].dims[i]
        for value in values[1:]:
            unify(dims[place_], value.dims[i])
    dims[at] = place(len(values), "stacked values")
    origins: list[Origin] = [NO_ORIGIN] * len(call.shape)
    if all(len(v.origins) == len(rest) for v in values):
        for i, place_ in enumerate(rest):
            origins[place_] = frozenset().union(*(v.origins[i] for v in values))
    return call.make(dims, values, origins=origins)


@rule("constant_pad_nd", "pad", "reflection_pad1d", "reflection_pad2d", "replication_pad1d",
      "replication_pad2d", "replication_pad3d", "reflection_pad3d")  # fmt: skip
def pad(call: Call) -> Result:
    """Padding with a constant adds free segments; other paddings fix the dimension."""
    x = call.first
    amounts = list(call["pad"] if call["pad"] is not None else call["padding"])
    constant = call.name in ("constant_pad_nd", "pad") and call["mode"] in (None, "constant")
    dims = list(x.dims)
    for i in range(len(amounts) // 2):
        before, after = amounts[2 * i], amounts[2 * i + 1]
        at = x.rank - 1 - i
        if before == after == 0:
            continue
        if not constant or is_loose(dims[at]):
            pin(dims[at], "positions")
            dims[at] = place(call.shape[at])
            continue
        middle = narrow(dims[at], max(0, -before), x.shape[at] - max(0, -after))
        parts = [(Atom(n),) for n in (before,) if n > 0]
        rest = [(Atom(n),) for n in (after,) if n > 0]
        dims[at] = concat([*parts, middle, *rest])
    return call.make(dims)


@rule("repeat", "tile")
def repeat(call: Call) -> Result:
    """Whole copies one after another: the number of copies is an outer factor."""
    x = call.first
    counts = call["repeats"] if call["repeats"] is not None else call["dims"]
    counts = [1] * (x.rank - len(counts)) + list(counts)
    lead = len(counts) - x.rank
    padded = [()] * lead + list(x.dims)
    dims = [(Atom(n), *dim) if n > 1 else dim for n, dim in zip(counts, padded, strict=True)]
    return call.make(dims, origins=[NO_ORIGIN] * lead + list(origins_of(x)))


@rule("repeat_interleave")
def repeat_interleave(call: Call) -> Result:
    """Each element copied: the number of copies is an inner factor."""
    x = call.first
    if not isinstance(call["repeats"], int) or call["dim"] is None:
        return call.opaque("copies whose number depends on data")
    at = positive(call["dim"], x.rank)
    dims = list(x.dims)
    dims[at] = (*dims[at], Atom(call["repeats"]))
    return call.make(dims)
