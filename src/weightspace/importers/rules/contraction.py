"""Weighted sums: linear layers and products of matrices."""

from __future__ import annotations

from weightspace.importers.atoms import Dim, size_of
from weightspace.importers.call import Call, Result, broadcast, pin, rule, unify
from weightspace.importers.value import NO_ORIGIN, Draw, Value


@rule("linear", "linear_")
def linear(call: Call) -> Result:
    """``y_o = sum_i W_oi x_i + b_o``: sources are tied, targets are the weight's rows."""
    x, weight = call["input"], call["weight"]
    unify(x.dims[-1], weight.dims[-1])
    bias = call["bias"]
    rows = list(weight.dims[:-1])
    if bias is not None and rows:
        unify(rows[0], bias.dims[0])
    call.spaces.append((*x.dims, *rows))
    sides = ["target"] * len(rows) + ["source"]
    return call.make([*x.dims[:-1], *rows], draw=contracting(x, weight, sides, bias))


def contracting(x: Value, weight: Value, sides: list[str], bias: Value | None = None) -> Draw:
    """The picture of a weighted sum: what each dimension of the weight is."""
    operands = (x, weight) if bias is None else (x, weight, bias)
    return Draw("contract", operands, {"sides": tuple(sides)})


@rule("mm", "bmm", "matmul", "mv", "dot", "_int_mm")
def matmul(call: Call) -> Result:
    """``C_ij = sum_k A_ik B_kj`` over broadcast leading dimensions."""
    a, b = call.tensors[:2]
    return _product(call, a, b, None)


@rule("addmm", "baddbmm", "addbmm", "addmv")
def addmm(call: Call) -> Result:
    """A product with something added."""
    bias, a, b = call.tensors[:3]
    return _product(call, a, b, bias)


def _product(call: Call, a: Value, b: Value, bias: Value | None) -> Result:
    inner = b.dims[0] if b.rank == 1 else b.dims[-2]
    unify(a.dims[-1], inner)
    rows = list(a.dims[-2:-1])
    columns = [] if b.rank == 1 else [b.dims[-1]]
    batch = _batch(a, b, call.shape, len(rows) + len(columns))
    dims = [*batch, *rows, *columns]
    call.spaces.append((*dims, a.dims[-1]))
    if bias is not None:
        added = Value("", tuple(dims), "constant", Draw("constant"), call.shape)
        dims = list(broadcast([added, bias], call.shape))
    inputs = [a, b] if bias is None else [a, b, bias]
    origins = None
    if len(a.origins) == a.rank and len(b.origins) == b.rank:
        origins = [NO_ORIGIN] * (len(dims) - len(rows) - len(columns))
        origins += [*a.origins[-2:-1], *([] if b.rank == 1 else [b.origins[-1]])]
    return call.make(dims, inputs, draw=_draw(a, b, bias), origins=origins)


def _batch(a: Value, b: Value, shape: tuple[int, ...], own: int) -> list[Dim]:
    lead = shape[: len(shape) - own]
    heads = [Value("", v.dims[:-2], v.kind, v.draw, v.shape[:-2]) for v in (a, b) if v.rank > 2]
    return list(broadcast(heads, lead))


def _draw(a: Value, b: Value, bias: Value | None) -> Draw:
    """A weighted sum if one side is made of parameters, else a meeting of activations."""
    if a.kind == "activation" and b.kind == "parameter":
        sides = ["source"] if b.rank == 1 else [*["shared"] * (b.rank - 2), "source", "target"]
        return contracting(a, b, sides, bias)
    if a.kind == "parameter" and b.kind == "activation":
        sides = ["source"] if a.rank == 1 else [*["shared"] * (a.rank - 2), "target", "source"]
        return contracting(b, a, sides, bias)
    operands = (a, b) if bias is None else (a, b, bias)
    return Draw("pass", operands)


@rule("grouped_mm_fallback", "_grouped_mm", "grouped_mm")
def grouped_mm(call: Call) -> Result:
    """Rows sorted by expert, each multiplied with its expert's matrix.

    Sorting fixes the order of the experts and of the rows.
    """
    x, weight = call.tensors[:2]
    for value in call.tensors[2:]:
        for dim in value.dims:
            pin(dim, "rows sorted by expert")
    if weight.rank != 3 or x.rank != 2:
        return call.opaque("rows sorted by expert")
    pin(weight.dims[0], "rows sorted by expert")
    pin(x.dims[0], "rows sorted by expert")
    unify(x.dims[1], weight.dims[1])
    call.spaces.append((x.dims[0], *weight.dims[1:]))
    draw = contracting(x, weight, ["feature", "source", "target"])
    return call.make([x.dims[0], weight.dims[2]], draw=draw)


@rule("bilinear", "_trilinear")
def bilinear(call: Call) -> Result:
    """``y_o = sum_ij x_i W_oij z_j + b_o``."""
    if call.name == "_trilinear":
        return call.opaque("a trilinear form")
    x, z, weight = call["input1"], call["input2"], call["weight"]
    unify(x.dims[-1], weight.dims[1])
    unify(z.dims[-1], weight.dims[2])
    if call["bias"] is not None:
        unify(weight.dims[0], call["bias"].dims[0])
    call.spaces.append((*x.dims, z.dims[-1], weight.dims[0]))
    operands = tuple(v for v in (x, weight, call["bias"], z) if v is not None)
    draw = Draw("contract", operands, {"sides": ("target", "source", "feature")})
    return call.make([*x.dims[:-1], weight.dims[0]], draw=draw)


@rule("cdist", "_cdist_forward", "_euclidean_dist")
def cdist(call: Call) -> Result:
    """Distances of rows: the columns are contracted."""
    a, b = call.tensors[:2]
    unify(a.dims[-1], b.dims[-1])
    batch = _batch(a, b, call.shape, 2)
    call.spaces.append((*batch, a.dims[-2], b.dims[-2], a.dims[-1]))
    return call.make([*batch, a.dims[-2], b.dims[-2]])


@rule("outer", "ger")
def outer(call: Call) -> Result:
    """All products of two vectors' elements."""
    a, b = call.tensors
    return call.make([a.dims[0], b.dims[0]])


@rule("cross", "linalg_cross")
def cross(call: Call) -> Result:
    """Cross products: three coordinates that are not exchangeable."""
    return call.opaque("coordinates in space")


def is_unit(dim: Dim) -> bool:
    """Whether a dimension has one element."""
    return size_of(dim) == 1
