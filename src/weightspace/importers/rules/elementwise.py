"""Functions of each element: all operands' dimensions are tied by broadcasting."""

from __future__ import annotations

import torch

from weightspace.importers.atoms import cut, free, size_of, unify
from weightspace.importers.call import Call, Result, broadcast, positive, rule
from weightspace.importers.value import Draw, Value

_UNARY = """relu relu6 leaky_relu gelu silu elu selu celu mish hardswish hardsigmoid hardtanh
sigmoid logsigmoid log_sigmoid_forward tanh sin cos tan sinh cosh asin acos atan asinh
acosh atanh exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal abs neg
sign sgn erf erfc erfinv floor ceil round trunc frac softplus softsign logical_not
bitwise_not isnan isinf isfinite clamp clamp_min clamp_max clone contiguous alias detach
_to_copy to type_as dropout native_dropout lift_fresh_copy lift_fresh nan_to_num
threshold hardshrink softshrink digamma lgamma positive logit real imag rrelu
view_as_complex_copy conj conj_physical resolve_conj resolve_neg angle special_expit i0
fill sinc polar"""

_BINARY = """add sub rsub mul div pow remainder fmod floor_divide maximum minimum fmin fmax atan2
eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor where
masked_fill addcmul addcdiv lerp prelu hypot xlogy copysign logaddexp nextafter
bitwise_left_shift bitwise_right_shift heaviside"""


@rule("copy")
def copy(call: Call) -> Result:
    """One tensor written over another: only the source's dimensions matter."""
    source = call["src"]
    lead = [free(n) for n in call.shape[: len(call.shape) - source.rank]]
    sizes = call.shape[len(lead) :]
    dims = [
        dim if size_of(dim) == size else free(size)
        for dim, size in zip(source.dims, sizes, strict=True)
    ]
    return call.make([*lead, *dims], [source])


@rule(*_UNARY.split(), *_BINARY.split())
def elementwise(call: Call) -> Result:
    """``y_i = f(a_i, b_i, ...)``: reordering the operands alike reorders the result."""
    if call.name == "prelu":
        return _prelu(call)
    tensors = call.tensors
    shape = call.shape
    dims = broadcast(tensors, shape)
    numbers = tuple(a for a in call.args.values() if isinstance(a, (int, float)))
    draw = Draw("elementwise", tensors, {"function": _function(call), "numbers": numbers})
    value = call.make(dims, tensors, draw=draw)
    if len(tensors) == 1 and call.first.exact:
        value.exact = call.first.exact
    if len(call.shapes) == 1:
        return value
    rest = (call.make(broadcast(tensors, s), tensors, output=i) if s is not None
            and len(s) == len(shape) else None for i, s in enumerate(call.shapes) if i)  # fmt: skip
    return (value, *rest)


def _function(call: Call) -> str:
    """What is computed; rounding is another function, and so is a number less a tensor."""
    dtype = call["dtype"]
    if call["rounding_mode"] or (isinstance(dtype, torch.dtype) and not dtype.is_floating_point):
        return "round"
    if call.name in ("sub", "div") and not isinstance(call["self"], Value):
        return f"r{call.name}"
    return call.name


@rule("glu")
def glu(call: Call) -> Result:
    """``a * sigmoid(b)`` of the two halves of a dimension, which are tied."""
    x = call.first
    at = positive(-1 if call["dim"] is None else call["dim"], x.rank)
    one, two = cut(x.dims[at], x.shape[at] // 2)
    unify(one, two)
    dims = [*x.dims[:at], one, *x.dims[at + 1 :]]
    draw = Draw("elementwise", (x,), {"function": "glu", "numbers": ()})
    return call.make(dims, [x], draw=draw)


def _prelu(call: Call) -> Result:
    """``prelu``: one slope for each channel of dimension 1, or one for all."""
    x, slope = call.tensors
    channels = 1 if x.rank > 1 else 0
    if size_of(slope.dims[0]) > 1:
        unify(x.dims[channels], slope.dims[0])
    draw = Draw("elementwise", (x, slope), {"function": "prelu", "numbers": ()})
    return call.make(x.dims, (x, slope), draw=draw)
