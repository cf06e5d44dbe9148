"""An ONNX graph as a torch module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from weightspace.importers.onnx.operation import Function


class Step(nn.Module):
    """One operation: a function of values, parameters and constants.

    Args:
        function: called with all operands in order.
        constants: the operands that are constants by place; None at the others.
        given: for each place, whether the operand is given at all.
    """

    def __init__(
        self, function: Function, constants: Sequence[Tensor | None], given: Sequence[bool]
    ) -> None:
        super().__init__()
        self.function = function
        self.given = tuple(given)
        self.constant = tuple(c is not None for c in constants)
        for place, constant in enumerate(constants):
            if constant is not None:
                self.register_buffer(f"constant_{place}", constant, persistent=False)

    def forward(self, *values: Tensor) -> tuple[Any, ...]:
        """Run the operation; always a tuple of results."""
        rest = iter(values)
        operands: list[Tensor | None] = []
        for place, given in enumerate(self.given):
            if self.constant[place]:
                operands.append(getattr(self, f"constant_{place}"))
            else:
                operands.append(next(rest) if given else None)
        result = self.function(*operands)
        return result if isinstance(result, tuple) else (result,)


class OnnxNetwork(nn.Module):
    """An ONNX graph that runs with ordinary torch functions.

    Its state dict has the graph's initializers under their own names; a name that torch cannot
    keep is changed, and ``onnx_names`` maps it back. Operations without parameters or inputs
    (shape arithmetic) were computed when it was made, for inputs of the shapes given then.

    Args:
        inputs: the names of the inputs, in the order that ``forward`` takes them.
        outputs: the names of the results, in the order that ``forward`` gives them.
        example_inputs: random inputs of the shapes and types that it was made for.
    """

    def __init__(
        self,
        inputs: Sequence[str],
        outputs: Sequence[str],
        example_inputs: tuple[Tensor, ...],
    ) -> None:
        super().__init__()
        self.input_names = tuple(inputs)
        self.output_names = tuple(outputs)
        self.example_inputs = example_inputs
        self.onnx_names: dict[str, str] = {}
        self.settings: set[str] = set()
        self.constants: dict[str, Tensor] = {}
        self._keys: dict[str, str] = {}
        self._program: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = []
        self.steps = nn.ModuleDict()

    # -- building ------------------------------------------------------------------------

    def add_tensor(self, name: str, tensor: Tensor, *, buffer: bool = False) -> str:
        """Register an initializer; returns its key in the state dict."""
        *path, last = self._free(name)
        owner: nn.Module = self
        for part in path:
            if part not in owner._modules:
                owner.add_module(part, nn.Module())
            owner = owner.get_submodule(part)
        if buffer:
            owner.register_buffer(last, tensor)
        else:
            owner.register_parameter(last, nn.Parameter(tensor, requires_grad=False))
        key = ".".join((*path, last))
        self.onnx_names[key] = name
        self._keys[name] = key
        return key

    def _free(self, name: str) -> list[str]:
        """A path of attributes for a name, changed as little as torch allows."""
        parts = name.split(".")
        count = 0
        while not self._fits(parts):
            count += 1
            parts = [name.replace(".", "_") + "_" * count]
        return parts

    def _fits(self, parts: Sequence[str]) -> bool:
        if not all(parts) or parts[0] == "steps":
            return False
        owner: nn.Module = self
        for part in parts[:-1]:
            inner = owner._modules.get(part)
            if inner is None:
                return not hasattr(owner, part) and not any(hasattr(nn.Module, p) for p in parts)
            owner = inner
        return not hasattr(owner, parts[-1])

    def add_step(
        self, name: str, step: Step, operands: Sequence[str], results: Sequence[str]
    ) -> None:
        """Add an operation.

        Args:
            name: the node's name.
            step: the operation.
            operands: the names of its values that are no constants.
            results: the names of its results, empty where nothing asks for one.
        """
        key = "".join(c if c.isalnum() or c in "_-/:" else "_" for c in name) or "node"
        free, count = key, 1
        while free in self.steps or hasattr(nn.ModuleDict, free):
            count += 1
            free = f"{key}_{count}"
        self.steps[free] = step
        self._program.append((free, tuple(operands), tuple(results)))

    def drop_step(self, result: str) -> None:
        """Remove the operation that computes a value, which nothing may read."""
        place = next(i for i, (_, _, own) in enumerate(self._program) if result in own)
        del self.steps[self._program.pop(place)[0]]

    # -- running -------------------------------------------------------------------------

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Run the graph on inputs in the order of ``input_names``."""
        values = dict(zip(self.input_names, inputs, strict=True))
        for key, operands, results in self._program:
            found = self.steps[key](*(self._value(values, name) for name in operands))
            values.update((n, v) for n, v in zip(results, found, strict=False) if n)
        return tuple(self._value(values, name) for name in self.output_names)

    def _value(self, values: Mapping[str, Tensor], name: str) -> Tensor:
        if name in values:
            return values[name]
        if name in self.constants:
            return self.constants[name]
        owner: nn.Module = self
        *path, last = self._keys[name].split(".")
        for part in path:
            owner = owner._modules[part]  # type: ignore[assignment]
        found = getattr(owner, last)
        assert isinstance(found, Tensor)
        return found

    def run(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Run without gradients."""
        with torch.no_grad():
            return self(*inputs)  # type: ignore[no-any-return]
