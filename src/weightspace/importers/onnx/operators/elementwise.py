"""Functions of each element, with broadcasting as torch has it."""

from __future__ import annotations

import functools
import operator as python
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from weightspace.importers.onnx.operation import Function, Operation, operator, torch_type

_UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "Sqrt": torch.sqrt, "Neg": torch.neg, "Exp": torch.exp, "Log": torch.log, "Erf": torch.erf,
    "Abs": torch.abs, "Reciprocal": torch.reciprocal, "Sin": torch.sin, "Cos": torch.cos,
    "Tan": torch.tan, "Asin": torch.asin, "Acos": torch.acos, "Atan": torch.atan,
    "Sinh": torch.sinh, "Cosh": torch.cosh, "Asinh": torch.asinh, "Acosh": torch.acosh,
    "Atanh": torch.atanh, "Floor": torch.floor, "Ceil": torch.ceil, "Round": torch.round,
    "Sign": torch.sign, "Not": torch.logical_not, "IsNaN": torch.isnan, "IsInf": torch.isinf,
}  # fmt: skip
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": python.add, "Sub": python.sub, "Mul": python.mul, "Equal": python.eq,
    "Greater": python.gt, "Less": python.lt, "GreaterOrEqual": python.ge,
    "LessOrEqual": python.le,
}  # fmt: skip
_LOGICAL = {"And": torch.logical_and, "Or": torch.logical_or, "Xor": torch.logical_xor}


@operator(*_UNARY)
def unary(op: Operation) -> Function:
    """A function of one tensor."""
    return _UNARY[op.kind]


@operator(*_BINARY, "Div", "Pow", "Mod")
def binary(op: Operation) -> Function:
    """A function of two tensors; one number is passed as a number, not as a tensor."""
    if op.attributes.get("broadcast") and op.rank(1) != op.rank(0) and op.rank(1) > 0:
        return _old_broadcast(op)
    function = _function(op)
    numbers = [_as_number(op, 0, 1), _as_number(op, 1, 0)]

    def run(a: Tensor, b: Tensor) -> Any:
        if numbers[1] is not None:
            return function(a, numbers[1])
        return function(a if numbers[0] is None else numbers[0], b)

    return run


def _as_number(op: Operation, index: int, other: int) -> float | int | None:
    """The number that an operand is, if it is one and the other operand has the shape."""
    one, two = op.operand(index), op.operand(other)
    if not one.static or two.static or one.example.numel() != 1:
        return None
    if one.example.ndim > two.example.ndim or one.example.dtype == torch.bool:
        return None
    number: float | int = one.known.item()  # type: ignore[union-attr]
    return number


def _function(op: Operation) -> Callable[[Any, Any], Any]:
    dtype = op.operand(0).example.dtype
    if op.kind == "Div":
        if dtype.is_floating_point:
            return python.truediv
        return lambda a, b: torch.div(torch.as_tensor(a), b, rounding_mode="trunc")
    if op.kind == "Pow":
        return lambda a, b: _of_type(a**b, dtype)
    if op.kind == "Mod":
        return torch.fmod if op.attributes.get("fmod") else torch.remainder
    return _BINARY[op.kind]


def _of_type(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x if x.dtype == dtype else x.to(dtype)


def _old_broadcast(op: Operation) -> Function:
    """Before version 7 the second operand was aligned at an axis that the node names."""
    function = _function(op)
    axis = op.axis("axis", op.rank(0) - op.rank(1))
    shape = [*op.shape(1), *[1] * (op.rank(0) - axis - op.rank(1))]
    return lambda a, b: function(a, b.reshape(shape))


@operator(*_LOGICAL)
def logical(op: Operation) -> Function:
    """Logic."""
    return _LOGICAL[op.kind]


@operator("Max", "Min", "Sum", "Mean")
def variadic(op: Operation) -> Function:
    """A function of any number of tensors."""
    combine = {"Max": torch.maximum, "Min": torch.minimum}.get(op.kind, torch.add)

    def run(*values: Tensor) -> Tensor:
        total = functools.reduce(combine, values)
        return total / len(values) if op.kind == "Mean" else total

    return run


@operator("Where")
def where(op: Operation) -> Function:
    """One of two values for each element."""
    return torch.where


@operator("Identity", "Dropout")
def identity(op: Operation) -> Function:
    """Nothing changes: a trained network drops nothing."""
    if op.kind == "Dropout" and len([name for name in op.outputs if name]) > 1:
        op.fail("a dropout whose mask nothing reads", "one that gives its mask")
    return lambda x, *rest: x


@operator("Cast", "CastLike")
def cast(op: Operation) -> Function:
    """Another type of number."""
    if op.kind == "CastLike":
        like = op.operand(1).example.dtype
        return lambda x, y: _of_type(x, like)
    dtype = torch_type(op.attributes.get("to", 0))
    if dtype is None:
        op.fail("a type that torch has", f"type {op.attributes.get('to')}")
    return lambda x: _of_type(x, dtype)
