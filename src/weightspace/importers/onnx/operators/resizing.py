"""Interpolation."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from weightspace.importers.onnx.operation import Function, Operation, operator

_LINEAR = {3: "linear", 4: "bilinear", 5: "trilinear"}


@operator("Resize", "Upsample")
def resize(op: Operation) -> Function:
    """Nearest, linear or cubic interpolation of the places."""
    scales, sizes = _target(op)
    mode = str(op.attributes.get("mode", "nearest"))
    op.require("antialias", 0)
    old = op.shape()
    if mode == "nearest":
        return _nearest(op, scales, sizes)
    if mode not in ("linear", "cubic", "bilinear") or op.rank() not in _LINEAR:
        op.fail("nearest, linear or cubic interpolation of one to three dimensions", mode)
    if sizes[:2] != list(old[:2]):
        op.fail("only places to be interpolated", f"sizes {old} to {sizes}")
    way = _way(op)
    if way not in ("half_pixel", "pytorch_half_pixel", "align_corners"):
        op.fail("coordinates of half_pixel or align_corners", way)
    kind = "bicubic" if mode == "cubic" else _LINEAR[op.rank()]
    if kind == "bicubic" and (op.rank() != 4 or op.attributes.get("cubic_coeff_a", -0.75) != -0.75):
        op.fail("cubic interpolation in a plane with coefficient -0.75", str(op.attributes))
    options: dict[str, Any] = {"mode": kind, "align_corners": way == "align_corners"}
    exact = all(old[i] * scales[i] == sizes[i] for i in range(2, len(old)))
    if exact or options["align_corners"]:
        return lambda x, *rest: F.interpolate(x, sizes[2:], **options)
    return lambda x, *rest: F.interpolate(x, scale_factor=scales[2:], **options)


def _way(op: Operation) -> str:
    default = "asymmetric" if op.kind == "Upsample" or op.opset < 11 else "half_pixel"
    return str(op.attributes.get("coordinate_transformation_mode", default))


def _target(op: Operation) -> tuple[list[float], list[int]]:
    """The scale and the new size of every dimension."""
    old = op.shape()
    place = 1 if op.kind == "Upsample" or op.opset < 11 else 2
    scales = op.attributes.get("scales")
    if scales is None and op.has(place) and op.operand(place).example.numel():
        scales = op.static(place).reshape(-1).tolist()
    sizes = op.ints(3) if place == 2 else None
    axes = [op.positive(int(a), len(old)) for a in op.attributes.get("axes", range(len(old)))]
    if not scales and not sizes:
        op.fail("scales or sizes", "neither")
    op.require("keep_aspect_ratio_policy", "stretch")
    if scales:
        full = dict(zip(axes, map(float, scales), strict=True))
        all_scales = [full.get(i, 1.0) for i in range(len(old))]
        return all_scales, [math.floor(n * s) for n, s in zip(old, all_scales, strict=True)]
    given = dict(zip(axes, sizes or [], strict=True))
    new = [given.get(i, n) for i, n in enumerate(old)]
    return [a / b for a, b in zip(new, old, strict=True)], new


def _nearest(op: Operation, scales: list[float], sizes: list[int]) -> Function:
    """The nearest element of each dimension; torch's own interpolation where it agrees."""
    old = op.shape()
    picks = {
        i: _picks(op, old[i], sizes[i], scales[i]) for i in range(len(old)) if sizes[i] != old[i]
    }
    plain = all(
        i >= 2 and pick == [(j * old[i]) // sizes[i] for j in range(sizes[i])]
        for i, pick in picks.items()
    )
    if plain and 3 <= len(old) <= 5:
        return lambda x, *rest: F.interpolate(x, sizes[2:], mode="nearest")
    orders = {i: torch.tensor(pick, dtype=torch.int64) for i, pick in picks.items()}

    def run(x: Tensor, *rest: Tensor) -> Tensor:
        for i, order in orders.items():
            x = x.index_select(i, order)
        return x

    return run


def _picks(op: Operation, old: int, new: int, scale: float) -> list[int]:
    """The element that each place of a dimension takes."""
    way = _way(op)
    default = "floor" if op.kind == "Upsample" or op.opset < 11 else "round_prefer_floor"
    rounding = str(op.attributes.get("nearest_mode", default))
    places = []
    for j in range(new):
        if way == "asymmetric":
            x = j / scale
        elif way == "align_corners":
            x = j * (old - 1) / (new - 1) if new > 1 else 0.0
        elif way == "pytorch_half_pixel" and new == 1:
            x = 0.0
        elif way in ("half_pixel", "pytorch_half_pixel"):
            x = (j + 0.5) / scale - 0.5
        else:
            op.fail("coordinates that are supported", way)
        nearest = {
            "floor": math.floor(x), "ceil": math.ceil(x),
            "round_prefer_floor": math.ceil(x - 0.5), "round_prefer_ceil": math.floor(x + 0.5),
        }.get(rounding)  # fmt: skip
        if nearest is None:
            op.fail("a rounding that is supported", rounding)
        places.append(min(max(nearest, 0), old - 1))
    return places
