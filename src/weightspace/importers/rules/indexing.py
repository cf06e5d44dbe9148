"""Reading and writing at indices: the indexed dimensions are fixed, the others pass."""

from __future__ import annotations

from weightspace.importers.atoms import Dim, size_of
from weightspace.importers.call import Call, Result, broadcast, pin, place, positive, rule, unify
from weightspace.importers.value import NO_ORIGIN, Draw, Origin, Value


@rule("embedding", "_embedding_bag", "embedding_bag")
def embedding(call: Call) -> Result:
    """``y = table[index]``: rows are tokens with meanings, columns are neurons."""
    table, indices = call["weight"], call["indices"]
    if call.name != "embedding":
        return _bag(call, table, indices)
    pin(table.dims[0], "tokens have meanings of their own")
    for leaf in table.dims[0]:
        leaf.role = leaf.role or "input"
    kind = "embedding" if indices.kind == "activation" else "pass"
    origins = [NO_ORIGIN] * indices.rank + [table.origins[-1] if table.origins else NO_ORIGIN]
    return call.make(
        [*indices.dims, table.dims[-1]],
        [table, indices],
        draw=Draw(kind, (table, indices)),
        origins=origins,
    )


def _bag(call: Call, table: Value, indices: Value) -> Result:
    """Sums, means or maxima of several rows, the same for every column."""
    pin(table.dims[0], "tokens have meanings of their own")
    for leaf in table.dims[0]:
        leaf.role = leaf.role or "input"
    for value in call.tensors[1:]:
        for dim in value.dims:
            pin(dim, "indices")
    kind = "embedding" if indices.kind == "activation" else "pass"
    bags = place(call.shape[0], "bags")
    value = call.make([bags, table.dims[-1]], call.tensors, draw=Draw(kind, (table, indices)))
    return (value, *[None] * (len(call.shapes) - 1))


@rule("index", "_unsafe_index", "index_copy_none", "_unsafe_masked_index")
def index(call: Call) -> Result:
    """Advanced indexing with tensors of indices."""
    x = call["self"]
    indices: list[Value | None] = [i if isinstance(i, Value) else None for i in call["indices"]]
    if call.name == "_unsafe_masked_index":
        return call.opaque("read at masked places")
    indices += [None] * (x.rank - len(indices))
    if any(i is not None and _is_mask(i, x, at) for at, i in enumerate(indices)):
        return call.opaque("read at masked places")
    used = [at for at, i in enumerate(indices) if i is not None]
    for at in used:
        pin(x.dims[at], "read at indices")
    together = used == list(range(used[0], used[-1] + 1))
    given = [i for i in indices if i is not None]
    rank = max(i.rank for i in given)
    start = used[0] if together else 0
    shape = call.shape[start : start + rank]
    inner = [place(size, "read at indices") if size_of(d) != size else d
             for d, size in zip(broadcast(given, shape), shape, strict=True)]  # fmt: skip
    for value in given:
        for dim in value.dims:
            pin(dim, "indices")
    origins = x.origins if len(x.origins) == x.rank else (NO_ORIGIN,) * x.rank
    rest = [(x.dims[at], origins[at]) for at in range(x.rank) if at not in used]
    before = start if together else 0
    new: list[tuple[Dim, Origin]] = [
        *rest[:before], *((dim, NO_ORIGIN) for dim in inner), *rest[before:]
    ]  # fmt: skip
    return call.make([dim for dim, _ in new], origins=[origin for _, origin in new])


def _is_mask(indices: Value, x: Value, at: int) -> bool:
    """Boolean masks consume as many dimensions as they have."""
    return bool(indices.rank > 1 and indices.shape == x.shape[at : at + indices.rank]
                and indices.draw.details.get("function") in _COMPARISONS)  # fmt: skip


_COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_not",
                "bitwise_and", "bitwise_or", "bitwise_not"}  # fmt: skip


@rule("index_select")
def index_select(call: Call) -> Result:
    """Some elements of one dimension."""
    x = call["self"]
    at = positive(call["dim"], x.rank)
    pin(x.dims[at], "read at indices")
    dims = list(x.dims)
    dims[at] = place(call.shape[at], "read at indices")
    origins = list(x.origins) if len(x.origins) == x.rank else [NO_ORIGIN] * x.rank
    return call.make(dims, origins=origins)


@rule("gather", "take_along_dim")
def gather(call: Call) -> Result:
    """``y[i, j] = x[i, index[i, j]]``: one dimension is indexed, the others are tied."""
    x, indices = call["self"], call["index"] if call["index"] is not None else call["indices"]
    at = positive(call["dim"], x.rank)
    dims = []
    for i, (one, two) in enumerate(zip(x.dims, indices.dims, strict=True)):
        if i == at:
            pin(one, "read at indices")
        elif size_of(one) == size_of(two):
            unify(one, two)
        else:
            pin(one, "read at indices")
            pin(two, "indices")
        if i == at:
            pin(two, "indices")
        dims.append(two)
    return call.make(dims)


@rule("scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy", "index_put",
      "_unsafe_index_put", "index_fill", "masked_scatter", "scatter_", "put", "_index_put_impl",
      "index_reduce", "masked_select_none")  # fmt: skip
def scatter(call: Call) -> Result:
    """Writing at indices: the written dimension is fixed, others are tied where they align."""
    x = call["self"]
    source = next((call[n] for n in ("src", "source", "value", "values")
                   if isinstance(call[n], Value)), None)  # fmt: skip
    if call.name in ("scatter", "scatter_add", "scatter_reduce") and x.rank:
        at = positive(call["dim"], x.rank)
        for value in (x, call["index"], *([source] if source else [])):
            if value.rank:
                pin(value.dims[at], "written at indices")
        for value in (call["index"], *([source] if source else [])):
            for i in range(value.rank):
                if i != at and size_of(value.dims[i]) == size_of(x.dims[i]):
                    unify(x.dims[i], value.dims[i])
                else:
                    pin(value.dims[i], "written at indices")
                    pin(x.dims[i], "written at indices")
        return call.make(x.dims)
    if call.name in ("index_add", "index_copy") and source is not None and source.rank == x.rank:
        at = positive(call["dim"], x.rank)
        pin(x.dims[at], "written at indices")
        pin(source.dims[at], "written at indices")
        for i in range(x.rank):
            if i != at:
                unify(x.dims[i], source.dims[i])
        return call.make(x.dims)
    if call.name in ("index_put", "_unsafe_index_put") and source is not None:
        return _index_put(call, x, source)
    return _fixed(call, x)


def _index_put(call: Call, x: Value, source: Value) -> Result:
    """Leading dimensions are indexed; the trailing ones are tied with the source's."""
    indices = [i for i in call["indices"] if isinstance(i, Value)]
    if len(indices) != len(call["indices"]):
        return _fixed(call, x)
    masked = len(indices) == 1 and indices[0].rank > 1
    used = indices[0].rank if masked else len(indices)
    for dim in x.dims[:used]:
        pin(dim, "written at indices")
    tail = x.dims[used:]
    for back in range(1, source.rank + 1):
        dim = source.dims[-back]
        if back <= len(tail) and size_of(dim) == size_of(tail[-back]):
            unify(tail[-back], dim)
        else:
            pin(dim, "written at indices")
    for value in indices:
        for dim in value.dims:
            pin(dim, "indices")
    return call.make(x.dims)


def _fixed(call: Call, x: Value) -> Result:
    for value in call.tensors:
        for dim in value.dims:
            pin(dim, "written at indices")
    return call.make(x.dims)


@rule("one_hot")
def one_hot(call: Call) -> Result:
    """Indices as unit vectors: a new dimension of classes."""
    return call.make([*call.first.dims, place(call.shape[-1], "classes")])


@rule("bincount", "histc", "bucketize", "searchsorted", "nonzero", "unique_consecutive", "isin",
      "masked_select", "tril_indices", "_unique2", "multinomial", "unique_dim",
      "linalg_inv_ex", "_linalg_svd", "linalg_qr", "_linalg_eigh", "_linalg_solve_ex",
      "_linalg_det", "linalg_cholesky_ex", "_fft_r2c", "_fft_c2r", "_fft_c2c", "complex",
      "stft", "istft", "fft_rfft", "fft_irfft", "fft_rfft2", "fft_irfft2", "nonzero_static",
      "linalg_lu_factor_ex", "triangular_solve", "linalg_solve_triangular", "tensordot",
      "_local_scalar_dense", "item", "equal", "segment_reduce", "ctc_loss")  # fmt: skip
def opaque(call: Call) -> Result:
    """What these compute depends on every order: all their operands are fixed."""
    return call.opaque(f"{call.name} of it")
