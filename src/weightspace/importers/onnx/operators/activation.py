"""Activation functions."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from weightspace.importers.onnx.operation import Function, Operation, operator

_PLAIN: dict[str, Callable[[Tensor], Tensor]] = {
    "Relu": F.relu, "Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Softplus": F.softplus,
    "Softsign": F.softsign, "HardSwish": F.hardswish, "Mish": F.mish,
}  # fmt: skip


@operator(*_PLAIN)
def plain(op: Operation) -> Function:
    """A function without options."""
    return _PLAIN[op.kind]


@operator("LeakyRelu", "Elu", "Celu", "ThresholdedRelu")
def with_slope(op: Operation) -> Function:
    """A function with one option, alpha."""
    alpha = float(op.attributes.get("alpha", 0.01 if op.kind == "LeakyRelu" else 1.0))
    if op.kind == "LeakyRelu":
        return lambda x: F.leaky_relu(x, alpha)
    if op.kind == "Elu":
        return lambda x: F.elu(x, alpha)
    if op.kind == "Celu":
        return lambda x: F.celu(x, alpha)
    return lambda x: F.threshold(x, alpha, 0.0)


@operator("Selu")
def selu(op: Operation) -> Function:
    """Klambauer et al. 2017; other constants than theirs are kept."""
    alpha = float(op.attributes.get("alpha", 1.6732632423543772))
    gamma = float(op.attributes.get("gamma", 1.0507009873554805))
    if abs(alpha - 1.6732632) < 1e-5 and abs(gamma - 1.0507009) < 1e-5:
        return F.selu
    return lambda x: gamma * F.elu(x, alpha)


@operator("Gelu")
def gelu(op: Operation) -> Function:
    """Hendrycks and Gimpel 2016."""
    op.require("approximate", "none", "tanh")
    approximate = op.attributes.get("approximate", "none")
    return lambda x: F.gelu(x, approximate=approximate)


@operator("Swish")
def swish(op: Operation) -> Function:
    """``x sigmoid(alpha x)``."""
    alpha = float(op.attributes.get("alpha", 1.0))
    if alpha == 1.0:
        return F.silu
    return lambda x: x * torch.sigmoid(alpha * x)


@operator("HardSigmoid")
def hard_sigmoid(op: Operation) -> Function:
    """``min(1, max(0, alpha x + beta))``."""
    alpha = float(op.attributes.get("alpha", 0.2))
    beta = float(op.attributes.get("beta", 0.5))
    if abs(alpha - 1 / 6) < 1e-6 and beta == 0.5:
        return F.hardsigmoid
    return lambda x: (x * alpha + beta).clamp(0.0, 1.0)


@operator("Clip")
def clip(op: Operation) -> Function:
    """Bounds, given as attributes or as inputs."""
    low, high = op.number(1, "min"), op.number(2, "max")
    if low is None and high is None:
        return lambda x, *rest: x
    whole = not op.operand(0).example.is_floating_point()
    bounds = [None if b is None else int(b) if whole else b for b in (low, high)]
    return lambda x, *rest: torch.clamp(x, bounds[0], bounds[1])


@operator("PRelu")
def prelu(op: Operation) -> Function:
    """One slope for all elements or for each channel; any other shape by broadcasting."""
    rank, slopes = op.rank(), op.shape(1)
    channels = op.shape()[1] if rank > 1 else 0
    count = op.operand(1).example.numel()
    aligned = [1] * (rank - len(slopes)) + list(slopes)
    if count == 1 or (rank > 1 and count == channels == aligned[1]):
        return lambda x, slope: F.prelu(x, slope.reshape(-1))
    return lambda x, slope: x.clamp(min=0.0) + slope * x.clamp(max=0.0)


@operator("Softmax", "LogSoftmax")
def softmax(op: Operation) -> Function:
    """Over one axis; before version 13 over all axes from it on."""
    function = F.softmax if op.kind == "Softmax" else F.log_softmax
    if op.opset >= 13:
        axis = op.axis(default=-1)
        return lambda x: function(x, dim=axis)
    axis, shape = op.axis(default=1), op.shape()
    if axis == len(shape) - 1:
        return lambda x: function(x, dim=axis)
    return lambda x: function(x.flatten(axis), dim=axis).reshape(shape)
