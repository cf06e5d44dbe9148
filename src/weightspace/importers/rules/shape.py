"""Operations that only rearrange dimensions: views, slices, concatenations, paddings."""

from __future__ import annotations

from weightspace.importers.atoms import Atom, Dim, concat, free, is_loose, narrow, size_of
from weightspace.importers.call import (
    Call,
    Result,
    flat,
    pin,
    place,
    positive,
    reshape,
    rule,
    unify,
)
from weightspace.importers.value import NO_ORIGIN, Origin, Value


def _origins(value: Value) -> tuple[Origin, ...]:
    known = len(value.origins) == value.rank
    return value.origins if known else (NO_ORIGIN,) * value.rank


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
    from weightspace.importers.atoms import _groups  # noqa: PLC0415

    origins = _origins(x)
    result: list[Origin] = []
    for old, new in _groups(x.shape, shape):
        union: Origin = frozenset().union(*(origins[i] for i in old)) if old else NO_ORIGIN
        result.extend([union] * len(new))
    return tuple(result)


def _moved(call: Call, order: list[int]) -> Result:
    """A result whose dimension i is the first operand's dimension ``order[i]``."""
    x = call.first
    origins = _origins(x)
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
    origins = _origins(x)
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
    for dim, origin, size in zip(x.dims, _origins(x), call.shape[lead:], strict=True):
        same = size_of(dim) == size
        dims.append(dim if same else (Atom(size),))
        origins.append(origin if same else NO_ORIGIN)
    return call.make(dims, [x], origins=origins)


@rule("repeat", "tile")
def repeat(call: Call) -> Result:
    """Whole copies one after another: the number of copies is an outer factor."""
    x = call.first
    counts = call["repeats"] if call["repeats"] is not None else call["dims"]
    counts = [1] * (x.rank - len(counts)) + list(counts)
    lead = len(counts) - x.rank
    padded = [()] * lead + list(x.dims)
    dims = [(Atom(n), *dim) if n > 1 else dim for n, dim in zip(counts, padded, strict=True)]
    return call.make(dims, origins=[NO_ORIGIN] * lead + list(_origins(x)))


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


@rule("slice", "slice_copy")
def slice_(call: Call) -> Result:
    """A range of one dimension, cut off as a segment."""
    x = call.first
    at = positive(call["dim"] or 0, x.rank)
    size = x.shape[at]
    start, stop, step = call["start"], call["end"], call["step"] or 1
    start = 0 if start is None else start
    stop = size if stop is None else min(stop, size)
    start, stop = (max(0, b + size if b < 0 else b) for b in (start, stop))
    if step == 1:
        return _narrowed(call, x, at, start, max(start, stop))
    return _strided(call, x, at, start, stop, step)


def _narrowed(  # noqa: PLR0917
    call: Call, x: Value, at: int, start: int, stop: int, output: int = 0
) -> Value:
    dims = list(x.dims)
    shape = call.shapes[output]
    if shape is not None and shape[at] != stop - start:
        # How far the range reaches depends on data.
        pin(x.dims[at], "a range that depends on data")
        dims[at] = place(shape[at], "a range that depends on data")
        return call.make(dims, [x], origins=_origins(x), output=output)
    known = x.exact[at] if x.exact else None
    dropped = [] if known else _outside(x.dims[at], start, stop)
    dims[at] = narrow(x.dims[at], start, stop)
    value = call.make(dims, [x], origins=_origins(x), dropped=dropped, output=output)
    if known is not None:
        tensor, dim, first = known
        value.kept += ((tensor, dim, first + start, first + stop),)
        value.exact = (*x.exact[:at], (tensor, dim, first + start), *x.exact[at + 1 :])
    return value


def _outside(dim: Dim, start: int, stop: int) -> list[Dim]:
    """What a range leaves of a dimension."""
    size = size_of(dim)
    return [narrow(dim, a, b) for a, b in ((0, start), (stop, size)) if a < b]


def _strided(  # noqa: PLR0917
    call: Call, x: Value, at: int, start: int, stop: int, step: int
) -> Result:
    """Every ``step``-th element: one element of an inner factor, if the sizes allow it."""
    dims = list(x.dims)
    size = x.shape[at]
    if (
        is_loose(x.dims[at])
        or size % step
        or start >= step
        or len(range(start, stop, step)) != size // step
    ):
        pin(x.dims[at], "a slice with a stride")
        dims[at] = place(call.shape[at], "a slice with a stride")
        return call.make(dims, [x], origins=_origins(x))
    outer, inner = reshape([x.dims[at]], [size // step, step])
    rest = [narrow(inner, 0, start), narrow(inner, start + 1, step)]
    dims[at] = (*outer, *narrow(inner, start, start + 1))
    dropped = [dim for dim in rest if size_of(dim) > 0]
    return call.make(dims, [x], origins=_origins(x), dropped=dropped)


@rule("narrow", "narrow_copy")
def narrow_(call: Call) -> Result:
    """A range given by its start and length."""
    x = call.first
    at = positive(call["dim"], x.rank)
    return _narrowed(call, x, at, call["start"], call["start"] + call["length"])


@rule("select", "select_copy")
def select(call: Call) -> Result:
    """One element of a dimension."""
    x = call.first
    at = positive(call["dim"], x.rank)
    index = positive(call["index"], x.shape[at])
    return _element(call, x, at, index, 0)


def _element(call: Call, x: Value, at: int, index: int, output: int) -> Value:
    known = x.exact[at] if x.exact else None
    dropped = [] if known else _outside(x.dims[at], index, index + 1)
    narrow(x.dims[at], index, index + 1)
    dims = [dim for i, dim in enumerate(x.dims) if i != at]
    origins = [o for i, o in enumerate(_origins(x)) if i != at]
    value = call.make(dims, [x], origins=origins, dropped=dropped, output=output)
    if known is not None:
        tensor, dim, first = known
        value.kept += ((tensor, dim, first + index, first + index + 1),)
        value.exact = tuple(e for i, e in enumerate(x.exact) if i != at)
    return value


@rule("unbind", "unbind_copy")
def unbind(call: Call) -> Result:
    """Every element of a dimension on its own."""
    x = call.first
    at = positive(call["dim"] or 0, x.rank)
    return tuple(_element(call, x, at, i, i) for i in range(x.shape[at]))


@rule("split", "split_with_sizes", "chunk", "split_with_sizes_copy", "split_copy", "tensor_split")
def split(call: Call) -> Result:
    """A dimension cut into ranges."""
    x = call.first
    at = positive(call["dim"] or 0, x.rank)
    results: list[Value | None] = []
    start = 0
    for output, shape in enumerate(call.shapes):
        assert shape is not None
        results.append(_narrowed(call, x, at, start, start + shape[at], output))
        start += shape[at]
    return tuple(results)


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


@rule("slice_scatter", "select_scatter")
def scatter_range(call: Call) -> Result:
    """A range of one dimension replaced by another tensor's."""
    x, source = call.tensors
    at = positive(call["dim"] or 0, x.rank)
    size = x.shape[at]
    if call.name == "select_scatter":
        start = positive(call["index"], size)
        stop, step = start + 1, 1
        inner = [*source.dims[:at], (), *source.dims[at:]]
    else:
        start, stop, step = call["start"] or 0, call["end"], call["step"] or 1
        stop = size if stop is None else min(stop, size)
        start, stop = (b + size if b < 0 else b for b in (start, stop))
        inner = list(source.dims)
    if step != 1:
        return call.opaque("written with a stride")
    dims: list[Dim] = []
    for i, (one, two) in enumerate(zip(x.dims, inner, strict=True)):
        if i == at:
            middle = two or narrow(one, start, stop)
            parts = [(0, start, None), (start, stop, middle), (stop, size, None)]
            dims.append(concat([m or narrow(one, a, b) for a, b, m in parts if a < b]))
        else:
            unify(one, two)
            dims.append(one if flat(one) else two)
    return call.make(dims)


@rule("view_as_complex", "view_as_real")
def complex_view(call: Call) -> Result:
    """Pairs of numbers as complex ones, and back."""
    x = call.first
    if call.name == "view_as_real":
        return call.make([*x.dims, place(2, "real and imaginary part")])
    pin(x.dims[-1], "real and imaginary part")
    return call.make(x.dims[:-1], origins=_origins(x)[:-1])


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
