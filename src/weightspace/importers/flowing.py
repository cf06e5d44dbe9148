"""The values that flow through a module, with the axes that their dimensions run over."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export.graph_signature import InputKind

from weightspace.errors import StateError, TraceError
from weightspace.graph.neural_graph import State, check_state
from weightspace.graph.spec import GraphSpec
from weightspace.importers import rules
from weightspace.importers.assembly import assemble, axis_names
from weightspace.importers.atoms import Atom, Dim, Sum, flat
from weightspace.importers.drawing import draw
from weightspace.importers.exporting import Exported, Inputs, export
from weightspace.importers.trace import trace
from weightspace.importers.value import Value


@dataclass(frozen=True, eq=False)
class Flow:
    """A value within a network.

    Args:
        name: of the operation that gives it.
        values: the tensor, a dimension for each axis.
        axes: the axis of each dimension; None for places and samples.
    """

    name: str
    values: Tensor
    axes: tuple[str | None, ...]


class FlowReader:
    """Runs a module's function with any weights and keeps values within it.

    The module is exported once. Values whose dimensions are whole axes (or products of them)
    can be kept; those of concatenated neurons are not.

    Args:
        module: the network.
        example_inputs: as for :func:`weightspace.from_module`; later inputs have their shapes.
        each: how many values are kept for each axis, evenly from the first to the last.

    Raises:
        TraceError: the module cannot be followed.

    >>> net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
    >>> reader = FlowReader(net, torch.zeros(5, 2))
    >>> [(flow.axes, tuple(flow.values.shape)) for flow in reader(net.state_dict())]
    [((None, '0'), (5, 8)), ((None, '0'), (5, 8))]
    """

    def __init__(self, module: nn.Module, example_inputs: Inputs, *, each: int = 3) -> None:
        assert rules.__all__
        self._exported: Exported = export(module, example_inputs)
        self._inputs = _flat_inputs(example_inputs)
        traced = trace(self._exported)
        sketch = draw(traced)
        buffers = {name for name, _ in module.named_buffers(remove_duplicate=False)}
        self.spec: GraphSpec = assemble(self._exported, traced, sketch, buffers)
        self._kept = _chosen(traced.values, axis_names(sketch), self.spec, each)

    def __call__(self, state: State, inputs: Inputs | None = None) -> list[Flow]:
        """Run the network with a state dict.

        Args:
            state: of the module's architecture.
            inputs: of the example's shapes; the example itself if not given.

        Raises:
            StateError: the state dict is of another architecture.
        """
        check_state(self.spec, state)
        found: dict[str, Tensor] = {}
        given = self._inputs if inputs is None else _flat_inputs(inputs)
        runner = _Keeping(self._exported.program.graph_module, set(self._kept), found)
        with torch.no_grad():
            runner.run(*self._arguments(state, given))
        flows = []
        for name, (sizes, axes) in self._kept.items():
            if found[name].numel() != math.prod(sizes):
                raise StateError(
                    "inputs",
                    expected="the shapes of the example inputs",
                    found=f"shape {tuple(found[name].shape)} at {name}",
                )
            flows.append(Flow(name, found[name].reshape(sizes), axes))
        return flows

    def _arguments(self, state: State, inputs: tuple[Tensor, ...]) -> list[Any]:
        program, waiting = self._exported.program, iter(inputs)
        arguments: list[Any] = []
        for spec in program.graph_signature.input_specs:
            target = spec.target
            if spec.kind == InputKind.USER_INPUT:
                arguments.append(next(waiting))
            elif target is not None and self._exported.canonical(target) in state:
                arguments.append(state[self._exported.canonical(target)])
            else:
                assert target is not None
                arguments.append(program.constants[target])
        return arguments


class _Keeping(fx.Interpreter):
    """Runs a graph and keeps the results of some of its nodes."""

    def __init__(self, module: fx.GraphModule, wanted: set[str], found: dict[str, Tensor]) -> None:
        super().__init__(module)
        self._wanted, self._found = wanted, found

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if n.name in self._wanted:
            self._found[n.name] = result[0] if isinstance(result, tuple) else result
        return result


Layout = tuple[tuple[int, ...], tuple[str | None, ...]]


def _chosen(
    values: list[Value], names: Mapping[Atom, str], spec: GraphSpec, each: int
) -> dict[str, Layout]:
    """The values that are kept: some for every axis that permutes."""
    moving = {axis.name for axis in spec.axes if axis.permutes and axis.size > 1}
    outer = {axis.within for axis in spec.axes if axis.name in moving and axis.within}
    layouts: dict[str, Layout] = {}
    having: dict[str, list[str]] = {name: [] for name in moving}
    for value in values:
        # of an operation with several results the first is kept
        first = value.kind == "activation" and value.name not in layouts
        layout = _layout(value, names, moving | outer) if first else None
        if layout is None:
            continue
        layouts[value.name] = layout
        for axis in moving & set(layout[1]):
            having[axis].append(value.name)
    kept: set[str] = set()
    for own in having.values():
        count = min(each, len(own))
        kept |= {own[round(i * (len(own) - 1) / max(count - 1, 1))] for i in range(count)}
    return {name: layout for name, layout in layouts.items() if name in kept}


def _layout(value: Value, names: Mapping[Atom, str], moving: set[str]) -> Layout | None:
    """Sizes and axes of a value's dimensions; None where neurons are concatenated."""
    sizes: list[int] = []
    axes: list[str | None] = []
    for size, dim in zip(value.shape, value.dims, strict=True):
        leaves: Dim = flat(dim)
        if any(isinstance(leaf.bound, Sum) for leaf in leaves):
            return None
        if math.prod(leaf.size for leaf in leaves) != size:
            return None
        for leaf in leaves:
            name = names.get(leaf)
            sizes.append(leaf.size)
            axes.append(name if name in moving else None)
    return tuple(sizes), tuple(axes)


def _flat_inputs(inputs: Inputs) -> tuple[Tensor, ...]:
    if isinstance(inputs, Tensor):
        return (inputs,)
    values = inputs.values() if isinstance(inputs, Mapping) else inputs
    if not all(isinstance(value, Tensor) for value in values):
        raise TraceError("inputs", expected="tensors", found=", ".join(map(repr, values))[:200])
    return tuple(values)
