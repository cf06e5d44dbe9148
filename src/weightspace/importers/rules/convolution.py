"""Convolutions: channels are neurons, kernel positions are features of a connection."""

from __future__ import annotations

from weightspace.importers.atoms import Dim, regroup, size_of
from weightspace.importers.call import Call, Result, pin, place, rule, unify
from weightspace.importers.rules.contraction import contracting
from weightspace.importers.value import Value


@rule("convolution", "conv1d", "conv2d", "conv3d", "_convolution")
def convolution(call: Call) -> Result:
    """Channels in groups; ``W [out, in / groups, ...]``, transposed ``[in, out / groups, ...]``.

    Each group has its own targets and sources, so both are nested within the groups.
    """
    x, weight, bias = call["input"], call["weight"], call["bias"]
    groups = call["groups"] or 1
    transposed = bool(call["transposed"])
    spatial = len(weight.shape) - 2
    channel = x.rank - spatial - 1
    __, target = _tie(x.dims[channel], weight, groups, transposed)
    if bias is not None:
        unify(target, bias.dims[0])
    for dim in weight.dims[2:]:
        pin(dim, "kernel positions")
        _mark_plain(dim)
    places: list[Dim] = []
    for i in range(spatial):
        same = (
            weight.shape[2 + i] == 1 and _unit(call["stride"], i) and not _any(call["padding"], i)
        )
        if same and call.shape[channel + 1 + i] == x.shape[channel + 1 + i]:
            places.append(x.dims[channel + 1 + i])
            continue
        pin(x.dims[channel + 1 + i], "positions")
        places.append(place(call.shape[channel + 1 + i]))
    dims = [*x.dims[:channel], target, *places]
    within = regroup(target, [groups, size_of(target) // groups]) if groups > 1 else None
    call.spaces.append((*x.dims, within[1] if within else target))
    sides = ["source", "target"] if transposed else ["target", "source"]
    sides += ["feature"] * spatial
    return call.make(dims, draw=contracting(x, weight, sides, bias))


def _tie(channels: Dim, weight: Value, groups: int, transposed: bool) -> tuple[Dim, Dim]:
    """Tie the input's channels with the weight's sources; the sources and the targets."""
    rows, columns = weight.dims[:2]
    if groups == 1:
        source, target = (rows, columns) if transposed else (columns, rows)
        unify(channels, source)
        return source, target
    if transposed:
        unify(channels, rows)
        outer = regroup(rows, [groups, size_of(rows) // groups])
        if outer is None:
            pin(rows, "groups that cut across neurons")
            return rows, (*place(groups, "groups"), *columns)
        return rows, (*outer[0], *columns)
    outer = regroup(rows, [groups, size_of(rows) // groups])
    if outer is None:
        pin(rows, "groups that cut across neurons")
        pin(channels, "groups that cut across neurons")
        pin(columns, "groups that cut across neurons")
        return channels, rows
    source = (*outer[0], *columns)
    unify(channels, source)
    return source, rows


def _unit(value: list[int], i: int) -> bool:
    return value[i if i < len(value) else 0] == 1


def _any(value: list[int], i: int) -> bool:
    return value[i if i < len(value) else 0] != 0


def _mark_plain(dim: Dim) -> None:
    for atom in dim:
        atom.plain = True


@rule("im2col", "col2im")
def columns(call: Call) -> Result:
    """Patches as columns: channels times kernel positions."""
    x = call.first
    kernel = call["kernel_size"]
    patch = [dim for n in kernel for dim in place(n, "kernel positions")]
    if call.name == "im2col":
        for dim in x.dims[-2:]:
            pin(dim, "positions")
        return call.make([*x.dims[:-3], (*x.dims[-3], *patch), place(call.shape[-1])])
    inner = 1
    for n in kernel:
        inner *= n
    parts = regroup(x.dims[-2], [x.shape[-2] // inner, inner])
    if parts is None:
        return call.opaque("patches that cut across neurons")
    pin(parts[1], "kernel positions")
    return call.make([*x.dims[:-2], parts[0], place(call.shape[-2]), place(call.shape[-1])])
