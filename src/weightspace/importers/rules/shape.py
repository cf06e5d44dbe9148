"""Operations that only rearrange dimensions: views, transpositions, copies, windows."""

from __future__ import annotations

from weightspace.importers.atoms import Atom, Dim, free, size_of
from weightspace.importers.call import (
    Call,
    Result,
    pin,
    place,
    positive,
    reshape,
    rule,
)
from weightspace.importers.reshaping import paired_runs
from weightspace.importers.value import NO_ORIGIN, Origin, Value, origins_of


@rule("view", "reshape", "_unsafe_view", "flatten", "unflatten", "view_copy", "_reshape_alias")
def view(call: Call) -> Result:
    """A row-major regrouping of dimensions."""
    x = call.first
    dims = reshape(x.dims, call.shape)
    return call.make(dims, origins=_regrouped(x, call.shape))


def _regrouped(x: Value, shape: tuple[int, ...]) -> tuple[Origin, ...]:
    """Each new dimension descends from the old ones that it overlaps."""
    if x.kind != "parameter" or 0 in shape:
        return ()
    origins = origins_of(x)
    result: list[Origin] = []
    for old, new in paired_runs(x.shape, shape):
        union: Origin = frozenset().union(*(origins[i] for i in old)) if old else NO_ORIGIN
        result.extend([union] * len(new))
    return tuple(result)


def _moved(call: Call, order: list[int]) -> Result:
    """A result whose dimension i is the first operand's dimension ``order[i]``."""
    x = call.first
    origins = origins_of(x)
    value = call.make([x.dims[i] for i in order], origins=[origins[i] for i in order])
    if x.exact:
        value.exact = tuple(x.exact[i] for i in order)
    return value


@rule("permute", "permute_copy")
def permute(call: Call) -> Result:
    """Dimensions in another order."""
    return _moved(call, [positive(d, call.first.rank) for d in call["dims"]])


@rule("t", "numpy_T", "adjoint", "mT")
def transpose_all(call: Call) -> Result:
    """A matrix transposed."""
    return _moved(call, list(reversed(range(call.first.rank))))


@rule("transpose", "swapaxes")
def transpose(call: Call) -> Result:
    """Two dimensions exchanged."""
    order = list(range(call.first.rank))
    a, b = (positive(call[name], len(order)) for name in ("dim0", "dim1"))
    order[a], order[b] = order[b], order[a]
    return _moved(call, order)


@rule("squeeze", "squeeze_copy")
def squeeze(call: Call) -> Result:
    """Dimensions of size one removed."""
    x = call.first
    asked = call["dim"]
    chosen = range(x.rank) if asked is None else [asked] if isinstance(asked, int) else asked
    gone = {positive(d, x.rank) for d in chosen if x.shape[d] == 1}
    return _moved(call, [i for i in range(x.rank) if i not in gone])


@rule("unsqueeze", "unsqueeze_copy")
def unsqueeze(call: Call) -> Result:
    """A new dimension of size one."""
    x = call.first
    at = positive(call["dim"], x.rank + 1)
    origins = origins_of(x)
    dims = [*x.dims[:at], (), *x.dims[at:]]
    value = call.make(dims, origins=[*origins[:at], NO_ORIGIN, *origins[at:]])
    if x.exact:
        value.exact = (*x.exact[:at], None, *x.exact[at:])
    return value


@rule("expand", "expand_copy", "expand_as", "broadcast_to")
def expand(call: Call) -> Result:
    """Copies along new or unit dimensions: all equal, so they may be reordered."""
    x = call.first
    lead = len(call.shape) - x.rank
    dims: list[Dim] = [free(n) for n in call.shape[:lead]]
    origins: list[Origin] = [NO_ORIGIN] * lead
    for dim, origin, size in zip(x.dims, origins_of(x), call.shape[lead:], strict=True):
        same = size_of(dim) == size
        dims.append(dim if same else (Atom(size),))
        origins.append(origin if same else NO_ORIGIN)
    return call.make(dims, [x], origins=origins)


@rule("pixel_shuffle", "pixel_unshuffle", "channel_shuffle")
def shuffle(call: Call) -> Result:
    """Channels split into factors that are moved to other dimensions."""
    x = call.first
    *batch, channels, height, width = x.dims
    if call.name == "channel_shuffle":
        groups = call["groups"]
        outer, inner = reshape([channels], [groups, x.shape[-3] // groups])
        return call.make([*batch, (*inner, *outer), height, width])
    if call.name == "pixel_shuffle":
        r = call["upscale_factor"]
        kept, rows, columns = reshape([channels], [x.shape[-3] // r**2, r, r])
        for dim in (rows, columns):
            pin(dim, "positions within a channel")
        return call.make([*batch, kept, (*height, *rows), (*width, *columns)])
    r = call["downscale_factor"]
    tall, rows = reshape([height], [x.shape[-2] // r, r])
    wide, columns = reshape([width], [x.shape[-1] // r, r])
    return call.make([*batch, (*channels, *rows, *columns), tall, wide])


@rule("view_as_complex", "view_as_real")
def complex_view(call: Call) -> Result:
    """Pairs of numbers as complex ones, and back."""
    x = call.first
    if call.name == "view_as_real":
        return call.make([*x.dims, place(2, "real and imaginary part")])
    pin(x.dims[-1], "real and imaginary part")
    return call.make(x.dims[:-1], origins=origins_of(x)[:-1])


@rule("diagonal", "as_strided", "diagonal_copy", "as_strided_copy", "as_strided_scatter",
      "unfold", "unfold_copy", "diagonal_scatter")  # fmt: skip
def restrided(call: Call) -> Result:
    """Windows and diagonals: the dimensions they run over are fixed, others pass."""
    x = call.first
    if call.name.startswith("unfold"):
        at = positive(call["dimension"], x.rank)
        pin(x.dims[at], "windows")
        dims = [*x.dims[:at], place(call.shape[at]), *x.dims[at + 1 :], place(call.shape[-1])]
        return call.make(dims)
    if call.name.startswith("diagonal") and "scatter" not in call.name:
        a, b = (
            positive(n, x.rank)
            for n in (call["dim1"] or 0, 1 if call["dim2"] is None else call["dim2"])
        )
        pin(x.dims[a], "a diagonal")
        pin(x.dims[b], "a diagonal")
        kept = [dim for i, dim in enumerate(x.dims) if i not in (a, b)]
        return call.make([*kept, place(call.shape[-1], "a diagonal")])
    return call.opaque("read with strides")
