"""Parts of a dimension: slices, elements and splits, read or written."""

from __future__ import annotations

from weightspace.importers.atoms import Dim, concat, is_loose, narrow, size_of
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
from weightspace.importers.value import Value, origins_of


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
        return call.make(dims, [x], origins=origins_of(x), output=output)
    known = x.exact[at] if x.exact else None
    dropped = [] if known else _outside(x.dims[at], start, stop)
    dims[at] = narrow(x.dims[at], start, stop)
    value = call.make(dims, [x], origins=origins_of(x), dropped=dropped, output=output)
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
        return call.make(dims, [x], origins=origins_of(x))
    outer, inner = reshape([x.dims[at]], [size // step, step])
    rest = [narrow(inner, 0, start), narrow(inner, start + 1, step)]
    dims[at] = (*outer, *narrow(inner, start, start + 1))
    dropped = [dim for dim in rest if size_of(dim) > 0]
    return call.make(dims, [x], origins=origins_of(x), dropped=dropped)


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
    origins = [o for i, o in enumerate(origins_of(x)) if i != at]
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
