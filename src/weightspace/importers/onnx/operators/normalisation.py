"""Normalisations."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from weightspace.importers.onnx.operation import Function, Operation, operator


@operator("BatchNormalization")
def batch_norm(op: Operation) -> Function:
    """With the statistics of training."""
    op.require("training_mode", 0)
    op.require("spatial", 1)
    epsilon = float(op.attributes.get("epsilon", 1e-5))
    return lambda x, scale, shift, mean, var: F.batch_norm(x, mean, var, scale, shift, eps=epsilon)


@operator("InstanceNormalization")
def instance_norm(op: Operation) -> Function:
    """Each channel of each sample for itself."""
    epsilon = float(op.attributes.get("epsilon", 1e-5))
    return lambda x, scale, shift: F.instance_norm(x, weight=scale, bias=shift, eps=epsilon)


@operator("GroupNormalization")
def group_norm(op: Operation) -> Function:
    """Groups of channels; scales are of channels (since version 21) or of groups."""
    groups = int(op.attributes["num_groups"])
    epsilon = float(op.attributes.get("epsilon", 1e-5))
    channels = op.shape()[1]
    repeats = 1 if op.shape(1)[0] == channels else channels // groups

    def run(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        if repeats > 1:
            scale = scale.repeat_interleave(repeats, 0)
            shift = shift.repeat_interleave(repeats, 0)
        return F.group_norm(x, groups, scale, shift, epsilon)

    return run


@operator("LayerNormalization")
def layer_norm(op: Operation) -> Function:
    """Over all dimensions from an axis on."""
    shape = list(op.shape()[op.axis(default=-1) :])
    epsilon = float(op.attributes.get("epsilon", 1e-5))
    return lambda x, scale, shift=None: F.layer_norm(
        x, shape, scale.expand(shape), None if shift is None else shift.expand(shape), epsilon
    )


@operator("RMSNormalization")
def rms_norm(op: Operation) -> Function:
    """Zhang and Sennrich 2019, over all dimensions from an axis on."""
    shape = list(op.shape()[op.axis(default=-1) :])
    epsilon = float(op.attributes.get("epsilon", 1e-5))
    return lambda x, scale: F.rms_norm(x, shape, scale, epsilon)


@operator("LpNormalization")
def normalise(op: Operation) -> Function:
    """Divided by the norm along an axis."""
    axis, power = op.axis(default=-1), int(op.attributes.get("p", 2))
    return lambda x: F.normalize(x, power, axis)


@operator("LRN")
def local_response(op: Operation) -> Function:
    """Krizhevsky et al. 2012: divided by the energy of neighbouring channels."""
    size = int(op.attributes["size"])
    alpha, beta, bias = (float(op.attributes.get(n, d))
                         for n, d in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))  # fmt: skip
    return lambda x: F.local_response_norm(x, size, alpha, beta, bias)
