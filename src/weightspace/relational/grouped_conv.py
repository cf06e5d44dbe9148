"""Convolutions of a wired layer in groups of nodes over the union of their neighbourhoods."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from weightspace.nn.first_derivative import first_derivative
from weightspace.relational.execution import (
    AUTO,
    MASKED,
    Choice,
    Plan,
    fixed_choice,
    grouped_plan,
    masked_only,
)
from weightspace.relational.grouped import GroupedLinear
from weightspace.relational.wiring import Wiring

_CONVOLUTIONS: dict[int, Callable[..., Tensor]] = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}
_HOPELESS = 0.6
_WORTH = 0.95
_SMALL = 2**24


def wired_convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    mask: Tensor,
    *,
    wiring: Wiring,
    plan: Choice = AUTO,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
) -> Tensor:
    """A convolution in which only wired channels are connected.

    A group of output channels is one convolution of the union of its nodes' neighbourhoods.

    Args:
        x: the inputs, with or without a batch dimension.
        weight: of the layer; what stands outside the wiring has no effect.
        bias: of the layer, or None.
        mask: the wiring's, in the weight's type, with the kernel's dimensions added.
        wiring: of the layer.
        plan: how to compute it, or ``"auto"``.
        stride: as in PyTorch.
        padding: as in PyTorch, in numbers or in words.
        dilation: as in PyTorch.
    """
    convolve = _CONVOLUTIONS[weight.dim()]
    options = (stride, padding, dilation)
    plain = masked_only(x, weight) or x.dim() != weight.dim() or isinstance(padding, str)
    chosen = MASKED if plain else _resolve(plan, wiring, (x, weight, mask), options)
    if chosen.group == 0:
        return convolve(x, weight * mask, bias, stride, padding, dilation)
    product: Any = _GroupedConvolution.apply
    y: Tensor = product(x, weight, grouped_plan(wiring, chosen), options)
    return y if bias is None else y + bias.view(-1, *[1] * (x.dim() - 2))


class _GroupedConvolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, plan: GroupedLinear, options: Any) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.plan, ctx.options = plan, options
        parts = [_convolve(_read(x, g), w, options) for g, w in _weights(plan, weight)]
        y = torch.cat(parts, 1)
        back = plan.outputs.back
        return y if back is None else y.index_select(1, back.to(x.device))

    @staticmethod
    @first_derivative
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        plan: GroupedLinear = ctx.plan
        wants_x, wants_weight, *_ = ctx.needs_input_grad
        dy = plan.outputs.arranged(dy)
        dx = torch.zeros_like(x) if wants_x else None
        changes: list[Tensor] = []
        groups = zip(_weights(plan, weight), torch.split(dy, plan.outputs.sizes, 1), strict=True)
        for (place, part), upstream in groups:
            into, change = _backward(
                upstream, _read(x, place), part, ctx.options, (wants_x, wants_weight)
            )
            if dx is not None:
                _add(dx, place, into)
            if wants_weight:
                changes.append(change.transpose(0, 1).flatten(2).reshape(-1, part[0, 0].numel()))
        dw = _unpacked(plan, weight, torch.cat(changes)) if wants_weight else None
        return dx, dw, None, None


def _weights(plan: GroupedLinear, weight: Tensor) -> list[tuple[slice | Tensor, Tensor]]:
    """The place that each group reads, and its kernels ``[own, read, ...]``."""
    side = plan.outputs
    flat = weight.flatten(2).reshape(-1, weight[0, 0].numel())
    packed = flat.index_select(0, side.taken.to(weight.device))
    packed = packed * side.mask.to(packed)[:, None]
    shapes = [(part.length, side.sizes[part.group]) for part in side.parts]
    pieces = torch.split(packed, [rows * columns for rows, columns in shapes])
    return [
        (part.place, piece.view(*shape, *weight.shape[2:]).transpose(0, 1).contiguous())
        for part, piece, shape in zip(side.parts, pieces, shapes, strict=True)
    ]


def _unpacked(plan: GroupedLinear, weight: Tensor, changes: Tensor) -> Tensor:
    padded = torch.cat((changes, changes.new_zeros(1, changes.shape[1])))
    return padded.index_select(0, plan.outputs.given.to(weight.device)).view(weight.shape)


def _read(x: Tensor, place: slice | Tensor) -> Tensor:
    return x[:, place] if isinstance(place, slice) else x.index_select(1, place.to(x.device))


def _add(dx: Tensor, place: slice | Tensor, change: Tensor) -> None:
    if isinstance(place, slice):
        dx[:, place] += change
    else:
        dx.index_add_(1, place.to(dx.device), change)


def _convolve(x: Tensor, weight: Tensor, options: Any) -> Tensor:
    return _CONVOLUTIONS[weight.dim()](x, weight, None, *options)


def _backward(
    dy: Tensor, x: Tensor, weight: Tensor, options: Any, wants: tuple[bool, bool]
) -> tuple[Tensor, Tensor]:
    stride, padding, dilation = (
        list(o) if isinstance(o, (tuple, list)) else [o] * (weight.dim() - 2) for o in options
    )
    outputs = torch.ops.aten.convolution_backward(
        dy, x, weight, None, stride, padding, dilation, False, [0], 1, [*wants, False]
    )
    return outputs[0], outputs[1]


# -- choosing ----------------------------------------------------------------------------

_chosen: dict[Any, Plan] = {}


def _resolve(
    plan: Choice, wiring: Wiring, tensors: tuple[Tensor, Tensor, Tensor], options: Any
) -> Plan:
    x, weight, mask = tensors
    fixed = fixed_choice(plan)
    if fixed is not None:
        return Plan(fixed.group, fixed.ordered)
    if x.is_cuda or x.numel() * len(weight) * weight[0, 0].numel() < _SMALL:
        return MASKED
    key = (
        wiring.key, tuple(x.shape), weight.shape, str(options), x.dtype, torch.get_num_threads()
    )  # fmt: skip
    if key not in _chosen:
        _chosen[key] = _fastest(x, weight, mask, wiring, options)
    return _chosen[key]


def _fastest(x: Tensor, weight: Tensor, mask: Tensor, wiring: Wiring, options: Any) -> Plan:
    whole = wiring.width_in * wiring.width_out
    plans = [MASKED]
    for plan in (Plan(4, ordered=True), Plan(8, ordered=True)):
        if grouped_plan(wiring, plan).outputs.products < _HOPELESS * whole:
            plans.append(plan)
    if len(plans) == 1:
        return MASKED
    stride, padding, dilation = options
    with torch.inference_mode(mode=False), torch.enable_grad():
        inputs = torch.ones_like(x, requires_grad=True)
        own = torch.ones_like(weight, requires_grad=True)
        masks = torch.ones_like(mask).copy_(mask)

        def run(plan: Plan) -> float:
            start = time.perf_counter()
            y = wired_convolution(
                inputs, own, None, masks, wiring=wiring, plan=plan, stride=stride,
                padding=padding, dilation=dilation,
            )  # fmt: skip
            torch.autograd.grad(y, (inputs, own), torch.ones_like(y))
            return time.perf_counter() - start

        for plan in plans:
            run(plan)
        times = zip(*([run(plan) for plan in plans] for _ in range(3)), strict=True)
        medians = [statistics.median(own_times) for own_times in times]
    best = min(range(len(plans)), key=lambda i: medians[i])
    return plans[best] if medians[best] <= _WORTH * medians[0] else MASKED
