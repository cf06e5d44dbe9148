"""One ONNX operation, as its translation to torch sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch
from torch import Tensor

from weightspace.errors import TraceError

Function = Callable[..., Any]
"""Called with the operation's inputs in order, None for those that are not given."""
Translator = Callable[["Operation"], Function]

OPERATORS: dict[str, Translator] = {}
"""The translation of every operation, by its ONNX name."""


def operator(*names: str) -> Callable[[Translator], Translator]:
    """Register a function as the translation of operations."""

    def register(function: Translator) -> Translator:
        for name in names:
            OPERATORS[name] = function
        return function

    return register


@dataclass(frozen=True, eq=False, slots=True)
class Operand:
    """An input of an operation.

    Args:
        name: of the value.
        example: a tensor of its shape and type; without numbers where they depend on inputs.
        known: its numbers, if they do not depend on inputs.
        parameter: the state dict's key if it is a parameter.
    """

    name: str
    example: Tensor
    known: Tensor | None = None
    parameter: str | None = None

    @property
    def static(self) -> bool:
        """Whether it is a plain constant: known, and not a parameter."""
        return self.known is not None and self.parameter is None


@dataclass(slots=True)
class Operation:
    """A node of an ONNX graph with its attributes and operands.

    Args:
        kind: the ONNX operation, such as ``"Conv"``.
        name: the node's name, or its first output's if it has none.
        opset: the version of the operation set.
        attributes: by name.
        operands: the inputs in order, None where one is not given.
        outputs: the names of the results, empty where one is not asked for.
        settings: parameters whose numbers were read as options; filled by :meth:`static`.
    """

    kind: str
    name: str
    opset: int
    attributes: Mapping[str, Any]
    operands: Sequence[Operand | None]
    outputs: Sequence[str]
    settings: set[str] = field(default_factory=set)

    def has(self, index: int) -> bool:
        """Whether an input is given."""
        return index < len(self.operands) and self.operands[index] is not None

    def operand(self, index: int) -> Operand:
        """An input that must be given."""
        found = self.operands[index] if index < len(self.operands) else None
        if found is None:
            self.fail(f"an input number {index}", "none")
        return found

    def shape(self, index: int = 0) -> tuple[int, ...]:
        """The shape of an input."""
        return tuple(self.operand(index).example.shape)

    def rank(self, index: int = 0) -> int:
        """The number of dimensions of an input."""
        return len(self.shape(index))

    def axis(self, name: str = "axis", default: int = 0, *, rank: int | None = None) -> int:
        """An attribute that names a dimension, counted from the front."""
        rank = self.rank() if rank is None else rank
        return self.positive(int(self.attributes.get(name, default)), rank)

    def positive(self, axis: int, rank: int) -> int:
        """A dimension counted from the front."""
        if not -rank <= axis <= max(rank, 0):
            self.fail(f"an axis of a tensor with {rank} dimensions", str(axis))
        return axis + rank if axis < 0 else axis

    def static(self, index: int) -> Tensor:
        """The numbers of an input that must not depend on the network's inputs."""
        operand = self.operand(index)
        if operand.known is None:
            self.fail(
                f"input {index} ({operand.name}) known without running the network",
                "a value that depends on the inputs",
            )
        if operand.parameter is not None:
            self.settings.add(operand.parameter)
        return operand.known

    def ints(self, index: int | None, attribute: str | None = None) -> list[int] | None:
        """Integers given as an attribute (older versions) or as an input (newer ones)."""
        if attribute is not None and attribute in self.attributes:
            value = self.attributes[attribute]
            return [int(value)] if isinstance(value, int) else [int(n) for n in value]
        if index is None or not self.has(index):
            return None
        return [int(n) for n in self.static(index).reshape(-1).tolist()]

    def number(self, index: int, attribute: str | None = None) -> float | None:
        """A number given as an attribute or as an input."""
        if attribute is not None and attribute in self.attributes:
            return float(self.attributes[attribute])
        if not self.has(index) or self.operand(index).example.numel() == 0:
            return None
        return float(self.static(index).reshape(-1)[0])

    def require(self, name: str, *allowed: Any) -> None:
        """Refuse values of an attribute that are not supported."""
        value = self.attributes.get(name, allowed[0])
        if value not in allowed:
            self.fail(f"{name} to be {' or '.join(map(repr, allowed))}", repr(value))

    def fail(self, expected: str, found: str = "") -> NoReturn:
        """Raise the error that this operation cannot be followed."""
        raise TraceError(
            f"operation {self.kind} of node {self.name!r} on {self.shapes}",
            expected=expected,
            found=found or "something else",
        )

    @property
    def shapes(self) -> str:
        """The shapes of the inputs, for messages."""
        given = [str(tuple(o.example.shape)) for o in self.operands if o is not None]
        return "shapes " + ", ".join(given) if given else "no inputs"


def torch_type(code: int) -> torch.dtype | None:
    """The torch type of an ONNX type code, None if torch has no such numbers."""
    return {
        1: torch.float32, 2: torch.uint8, 3: torch.int8, 5: torch.int16, 6: torch.int32,
        7: torch.int64, 9: torch.bool, 10: torch.float16, 11: torch.float64, 16: torch.bfloat16,
    }.get(code)  # fmt: skip
