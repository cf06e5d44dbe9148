"""Normalisations: statistics over neurons ignore their order; scale and shift are diagonal."""

from __future__ import annotations

from weightspace.importers.atoms import regroup, size_of
from weightspace.importers.call import Call, Result, pin, rule, unify
from weightspace.importers.value import Draw, Value


def _norm(call: Call, x: Value, tied: list[tuple[int, Value | None]]) -> Result:
    """Tie each parameter ``[n]`` with a dimension of x, and draw a diagonal block."""
    for at, parameter in tied:
        if parameter is not None and size_of(parameter.dims[0]) == size_of(x.dims[at]):
            unify(x.dims[at], parameter.dims[0])
    weight, bias = call["weight"], call["bias"]
    further = [call[name] for name in ("running_mean", "running_var")]
    operands = tuple(v for v in (x, weight, bias, *further) if v is not None)
    details = {
        "weight": weight,
        "bias": bias,
        "shifts": [v for v in (bias, *further) if v is not None],
    }
    value = call.make(x.dims, operands, draw=Draw("norm", operands, details))
    if len(call.shapes) == 1:
        return value
    return (value, *[None] * (len(call.shapes) - 1))


@rule("native_batch_norm", "_native_batch_norm_legit_no_training", "batch_norm",
      "_native_batch_norm_legit", "cudnn_batch_norm", "instance_norm",
      "_batch_norm_no_update")  # fmt: skip
def batch_norm(call: Call) -> Result:
    """``y_c = gamma_c (x_c - mean_c) / sqrt(var_c + eps) + beta_c``; channels are dimension 1."""
    x = call["input"]
    names = ("weight", "bias", "running_mean", "running_var")
    return _norm(call, x, [(1, call[name]) for name in names])


@rule("native_layer_norm", "layer_norm", "rms_norm", "_fused_rms_norm")
def layer_norm(call: Call) -> Result:
    """Normalised over the last dimensions, with parameters of their shape."""
    x = call["input"]
    count = len(call["normalized_shape"])
    for name in ("weight", "bias"):
        parameter = call[name]
        if parameter is not None:
            for i in range(1, count + 1):
                unify(x.dims[-i], parameter.dims[-i])
    return _norm(call, x, [])


@rule("native_group_norm", "group_norm")
def group_norm(call: Call) -> Result:
    """Normalised within groups of channels: groups may be exchanged whole."""
    x = call["input"]
    groups = call["group"] if call["group"] is not None else call["num_groups"]
    count = size_of(x.dims[1])
    if 1 < groups < count and regroup(x.dims[1], [groups, count // groups]) is None:
        pin(x.dims[1], "groups that cut across neurons")
    return _norm(call, x, [(1, call["weight"]), (1, call["bias"])])


@rule("_weight_norm_interface", "_weight_norm")
def weight_norm(call: Call) -> Result:
    """``W = g v / |v|``, one length g for each index of a dimension."""
    direction, length = call["v"], call["g"]
    for one, two in zip(direction.dims, length.dims, strict=True):
        if size_of(two) == size_of(one):
            unify(one, two)
    value = call.make(direction.dims, [direction, length])
    if len(call.shapes) == 1:
        return value
    return (value, call.make(length.dims, [length], output=1))
