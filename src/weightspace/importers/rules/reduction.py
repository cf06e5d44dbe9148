"""Reductions: dimensions vanish, their order having no effect."""

from __future__ import annotations

from weightspace.importers.atoms import Dim
from weightspace.importers.call import Call, Result, dims_argument, pin, place, positive, rule
from weightspace.importers.value import NO_ORIGIN, Draw, Value


@rule("sum", "mean", "amax", "amin", "prod", "var", "std", "logsumexp", "norm", "any", "all",
      "linalg_vector_norm", "nansum", "var_mean", "std_mean", "max", "min", "nanmean",
      "aminmax", "count_nonzero", "linalg_norm", "_is_all_true", "_is_any_true")  # fmt: skip
def reduce(call: Call) -> Result:
    """Symmetric functions of the elements of some dimensions."""
    x = call.first
    if len(call.tensors) > 1:
        from weightspace.importers.rules.elementwise import elementwise  # noqa: PLC0415

        return elementwise(call)
    gone = set(dims_argument(call["dim"], x.rank))
    results = []
    for output, shape in enumerate(call.shapes):
        assert shape is not None
        if call.name in ("max", "min") and output == 1:
            for i in gone:
                pin(x.dims[i], "an index of it is computed")
        keep = len(shape) == x.rank
        dims = [() if i in gone else d for i, d in enumerate(x.dims) if keep or i not in gone]
        origins = x.origins if len(x.origins) == x.rank else (NO_ORIGIN,) * x.rank
        sources = [o for i, o in enumerate(origins) if keep or i not in gone]
        results.append(call.make(dims, origins=sources, output=output))
    return results[0] if len(results) == 1 else tuple(results)


@rule("argmax", "argmin")
def argmax(call: Call) -> Result:
    """The index of the largest: reordering would change it."""
    x = call.first
    gone = set(dims_argument(call["dim"], x.rank))
    for i in gone:
        pin(x.dims[i], "an index of it is computed")
    keep = len(call.shape) == x.rank
    return call.make(
        [() if i in gone else d for i, d in enumerate(x.dims) if keep or i not in gone]
    )


@rule("softmax", "log_softmax", "_softmax", "_log_softmax", "_safe_softmax")
def softmax(call: Call) -> Result:
    """Equivariant to the order of every dimension, the normalised one included."""
    x = call.first
    draw = Draw("elementwise", (x,), {"function": "softmax", "numbers": ()})
    return call.make(x.dims, draw=draw)


@rule("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin", "sort", "argsort", "topk",
      "kthvalue", "median", "mode", "flip", "fft_fft", "fft_ifft", "nanmedian")  # fmt: skip
def ordered(call: Call) -> Result:
    """Results that depend on the order along one dimension: it is fixed."""
    x = call.first
    asked = call["dim"] if call["dim"] is not None else call["dims"]
    fixed = {-1 + x.rank} if asked is None and x.rank else set(dims_argument(asked, x.rank))
    results: list[Value | None] = []
    for output, shape in enumerate(call.shapes):
        if shape is None:
            results.append(None)
            continue
        dims: list[Dim] = []
        for i, dim in enumerate(x.dims):
            if i not in fixed:
                dims.append(dim)
                continue
            pin(dim, f"{call.name} over it")
            keep = call.name in ("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin")
            if keep and output == 0:
                dims.append(dim)
            elif len(shape) == x.rank:
                dims.append(place(shape[i], f"{call.name} over it"))
        results.append(call.make(dims, output=output))
    return results[0] if len(results) == 1 and results[0] is not None else tuple(results)


@rule("roll")
def roll(call: Call) -> Result:
    """A cyclic shift: the dimensions it shifts are fixed."""
    x = call.first
    dims = list(x.dims)
    for d in call["dims"] or range(x.rank):
        at = positive(d, x.rank)
        pin(dims[at], "positions")
    return call.make(dims)


@rule("triu", "tril")
def triangle(call: Call) -> Result:
    """A triangle of a matrix: rows and columns are fixed."""
    x = call.first
    for dim in x.dims[-2:]:
        pin(dim, "a triangle of it is taken")
    return call.make(x.dims)
