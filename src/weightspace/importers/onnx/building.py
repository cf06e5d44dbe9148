"""From an ONNX graph to a module: constants are folded, the rest becomes steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from weightspace.errors import FileError, TraceError
from weightspace.importers.onnx import operators
from weightspace.importers.onnx.network import OnnxNetwork, Step
from weightspace.importers.onnx.operation import OPERATORS, Function, Operand, Operation

if TYPE_CHECKING:
    import onnx

_LARGEST = 2**31
"""The most elements a value may have: declared sizes are not to be trusted."""
_DOMAINS = {"", "ai.onnx"}
_ARITHMETIC = {"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Concat"}
_CONTROL = {"If", "Loop", "Scan", "SequenceMap"}
_RANDOM = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli",
           "Multinomial"}  # fmt: skip
_STATISTICS = {"BatchNormalization": (3, 4)}


def build(
    model: onnx.ModelProto, inputs: Mapping[str, Tensor], subject: str
) -> OnnxNetwork:  # fmt: skip
    """Make a module that computes what an ONNX model computes.

    Args:
        model: with all its data.
        inputs: an example of each input, by name.
        subject: how errors call the model.

    Raises:
        TraceError: an operation is not supported.
        FileError: the graph contradicts itself.
    """
    return _Builder(model, inputs, subject).run()


@dataclass(slots=True)
class _Scope:
    """The values that the nodes of a graph can see."""

    values: dict[str, Operand] = field(default_factory=dict)

    def inner(self) -> _Scope:
        """A scope inside this one."""
        return _Scope(dict(self.values))


class _Builder:
    def __init__(self, model: onnx.ModelProto, inputs: Mapping[str, Tensor], subject: str) -> None:
        assert operators.__all__
        self.model, self.subject = model, subject
        versions = {entry.domain: entry.version for entry in model.opset_import}
        self.opset = int(versions.get("", versions.get("ai.onnx", 1)))
        outputs = [output.name for output in model.graph.output]
        self.network = OnnxNetwork(list(inputs), outputs, tuple(inputs.values()))
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        self.statistics = _statistics(model.graph)
        self.taken: set[str] = set()
        self.reads = _reads(model.graph)
        self.products: dict[str, tuple[Operand, Operand]] = {}

    def run(self) -> OnnxNetwork:
        scope = _Scope()
        graph = self.model.graph
        for name, tensor in zip(self.network.input_names, self.network.example_inputs, strict=True):
            scope.values[name] = Operand(name, self.mode.from_tensor(tensor))
        self._graph(graph, scope)
        for output in graph.output:
            found = self._look_up(scope, output.name, "the graph's outputs")
            if found.static:
                self.network.constants[output.name] = found.known  # type: ignore[assignment]
            elif found.name != output.name:
                self._rename(found, output.name)
        return self.network.eval()

    def _rename(self, found: Operand, name: str) -> None:
        step = Step(lambda x: x, [None], [True])
        self.network.add_step(name, step, [found.name], [name])

    # -- graphs --------------------------------------------------------------------------

    def _graph(self, graph: onnx.GraphProto, scope: _Scope) -> None:
        for tensor in graph.initializer:
            # An initializer that is also an input is that input's default value.
            scope.values[tensor.name] = self._tensor(tensor.name, self._numbers(tensor))
        for node in graph.node:
            self._node(node, scope)

    def _numbers(self, tensor: onnx.TensorProto) -> Tensor:
        from onnx import TensorProto, numpy_helper  # noqa: PLC0415 (an extra)

        try:
            if tensor.data_type == TensorProto.BFLOAT16:
                array = numpy_helper.to_array(tensor).astype(np.float32)
                return torch.from_numpy(array).to(torch.bfloat16)
            array = np.array(numpy_helper.to_array(tensor))
            return torch.from_numpy(array)
        except (ValueError, TypeError, OverflowError) as error:
            raise FileError(
                f"{self.subject}, tensor {tensor.name!r}",
                expected=f"numbers of shape {list(tensor.dims)}",
                found=" ".join(str(error).split())[:200],
            ) from error

    def _tensor(self, name: str, tensor: Tensor) -> Operand:
        """A parameter if it holds real numbers, else a plain constant."""
        if not tensor.is_floating_point():
            return Operand(name, tensor, tensor)
        unique = name
        while unique in self.taken:
            unique += "'"
        self.taken.add(unique)
        key = self.network.add_tensor(unique, tensor, buffer=name in self.statistics)
        return Operand(unique, self.mode.from_tensor(tensor), tensor, key)

    def _look_up(self, scope: _Scope, name: str, reader: str) -> Operand:
        if name not in scope.values:
            raise FileError(
                f"{self.subject}, value {name!r}",
                expected=f"something that computes it, as {reader} reads it",
                found="nothing before",
                hint="The graph is damaged or not in the order of computation.",
            )
        return scope.values[name]

    # -- nodes ---------------------------------------------------------------------------

    def _node(self, node: onnx.NodeProto, scope: _Scope) -> None:
        name = node.name or next(filter(None, node.output), node.op_type)
        operands = [self._look_up(scope, i, f"node {name!r}") if i else None for i in node.input]
        operation = Operation(
            node.op_type, name, self.opset, _attributes(node), operands, list(node.output)
        )
        if node.op_type == "If" and operands and operands[0] and operands[0].static:
            self._branch(operation, scope)
            return
        if node.op_type in _CONTROL:
            self._refuse_control(node, operation)
        if node.domain not in _DOMAINS or node.op_type not in OPERATORS:
            kind = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            found = "a random one" if node.op_type in _RANDOM else kind
            operation.fail("an operation that is supported", found)
        if node.op_type == "Constant":
            self._constant(operation, scope)
        elif self._is_known(operation):
            self._fold(operation, scope)
        else:
            self._step(operation, scope)

    def _constant(self, operation: Operation, scope: _Scope) -> None:
        tensor = self._constant_value(operation)
        name = operation.outputs[0]
        # A single number is part of a formula, not a weight.
        plain = tensor.numel() <= 1
        scope.values[name] = Operand(name, tensor, tensor) if plain else self._tensor(name, tensor)

    def _constant_value(self, operation: Operation) -> Tensor:
        found = operation.attributes
        if "value" in found:
            return self._numbers(found["value"])
        for key, kind in (("value_float", torch.float32), ("value_floats", torch.float32),
                          ("value_int", torch.int64), ("value_ints", torch.int64)):  # fmt: skip
            if key in found:
                return torch.tensor(found[key], dtype=kind)
        return operation.fail("numbers", f"attributes {', '.join(found) or 'none'}")

    def _is_known(self, operation: Operation) -> bool:
        """Whether an operation's results do not depend on inputs or parameters."""
        if operation.kind in ("Shape", "Size"):
            return True
        given = [operand for operand in operation.operands if operand is not None]
        if all(operand.static for operand in given):
            return True
        # Arithmetic of shapes with real numbers, as interpolation has it.
        return (
            operation.kind in _ARITHMETIC
            and all(operand.known is not None for operand in given)
            and all(operand.example.ndim <= 1 and operand.example.numel() <= 8 for operand in given)
            and any(operand.static and operand.name not in self.taken for operand in given)
            and any(operand.static and operand.example.ndim == 1 for operand in given)
        )

    def _fold(self, operation: Operation, scope: _Scope) -> None:
        """Compute an operation now."""
        function = self._translate(operation)
        self._limit(operation, function)
        if operation.kind in ("Shape", "Size"):
            values: list[Any] = [o.example if o else None for o in operation.operands]
        else:
            values = [o.known if o else None for o in operation.operands]
        self.network.settings |= {o.parameter for o in operation.operands if o and o.parameter}
        results = self._call(operation, function, values)
        for name, tensor in zip(operation.outputs, results, strict=False):
            if name:
                scope.values[name] = Operand(name, tensor, tensor)

    def _limit(self, operation: Operation, function: Function) -> None:
        """Find out the sizes of results before any memory is taken."""
        with self.mode:
            values = [
                None if o is None else self.mode.from_tensor(o.known) if o.known is not None
                else o.example
                for o in operation.operands
            ]  # fmt: skip
        if operation.kind in ("ConstantOfShape", "Expand", "Tile", "Range", "Pad", "OneHot"):
            with self.mode:
                self._call(operation, function, values)

    def _step(self, operation: Operation, scope: _Scope) -> None:
        """Add an operation to the module."""
        operation = self._with_bias(operation)
        function = self._translate(operation)
        self.network.settings |= operation.settings
        constants = [o.known if o is not None and o.static else None for o in operation.operands]
        step = Step(function, constants, [o is not None for o in operation.operands])
        names = [o.name for o in operation.operands if o is not None and not o.static]
        with self.mode, torch.no_grad():
            values = [None if o is None else o.known if o.static else o.example
                      for o in operation.operands]  # fmt: skip
            results = self._call(operation, function, values)
        asked = [n for n in operation.outputs if n]
        if len(results) < len(operation.outputs) and any(operation.outputs[len(results) :]):
            operation.fail("results that are supported", f"{', '.join(asked)} asked for")
        own: list[str] = []
        for name, result in zip(operation.outputs, results, strict=False):
            unique = self._unique(name)
            own.append(unique)
            if name:
                scope.values[name] = Operand(unique, result)
        self.network.add_step(operation.name, step, names, own)
        if operation.kind == "MatMul" and self.reads[operation.outputs[0]] == 1:
            x, weight = operation.operand(0), operation.operand(1)
            if weight.parameter and weight.example.ndim == 2 and not x.parameter:
                self.products[own[0]] = (x, weight)

    def _with_bias(self, operation: Operation) -> Operation:
        """A product and the bias added to it are one linear layer."""
        if operation.kind != "Add" or len(operation.operands) != 2:
            return operation
        one, two = operation.operand(0), operation.operand(1)
        product, bias = (two, one) if one.parameter else (one, two)
        found = self.products.get(product.name)
        if found is None or not bias.parameter:
            return operation
        if tuple(bias.example.shape) != (found[1].example.shape[1],):
            return operation
        self.network.drop_step(product.name)
        return replace(operation, kind="Linear", operands=(*found, bias))

    def _unique(self, name: str) -> str:
        """Names of inner graphs may hide outer ones: every value gets a name of its own."""
        while name and name in self.taken:
            name += "'"
        if name:
            self.taken.add(name)
        return name

    def _translate(self, operation: Operation) -> Function:
        try:
            return OPERATORS[operation.kind](operation)
        except (TraceError, FileError):
            raise
        except Exception as error:  # a damaged graph makes nearly everything happen
            raise _trouble(operation, error) from error

    def _call(
        self, operation: Operation, function: Function, values: Sequence[Any]
    ) -> tuple[Any, ...]:
        try:
            found = function(*values)
        except TraceError:
            raise
        except Exception as error:
            raise _trouble(operation, error) from error
        results = found if isinstance(found, tuple) else (found,)
        for result in results:
            if isinstance(result, Tensor) and result.numel() > _LARGEST:
                operation.fail("values of ordinary size", f"a result of {tuple(result.shape)}")
        return results

    # -- control flow --------------------------------------------------------------------

    def _branch(self, operation: Operation, scope: _Scope) -> None:
        """Take the branch of an If whose condition is known."""
        taken = bool(operation.static(0).reshape(-1)[0])
        chosen = operation.attributes["then_branch" if taken else "else_branch"]
        other = operation.attributes["else_branch" if taken else "then_branch"]
        inner = scope.inner()
        self._graph(chosen, inner)
        for name, output in zip(operation.outputs, chosen.output, strict=False):
            scope.values[name] = self._look_up(inner, output.name, f"node {operation.name!r}")
        for tensor in other.initializer:
            self._tensor(tensor.name, self._numbers(tensor))

    def _refuse_control(self, node: onnx.NodeProto, operation: Operation) -> None:
        from weightspace.importers.onnx.reading import graphs_of  # noqa: PLC0415 (an extra)

        held = [
            tensor.name
            for attribute in node.attribute
            if attribute.HasField("g")
            for graph in graphs_of(attribute.g)
            for tensor in graph.initializer
        ]
        raise TraceError(
            f"control flow {operation.kind} of node {operation.name!r} on {operation.shapes}",
            expected="a graph without branches or loops that depend on data",
            found=f"one that holds {', '.join(held) or 'no parameters'}",
            hint="Export the network with its loops unrolled and the branch that is taken.",
        )


def _trouble(operation: Operation, error: Exception) -> TraceError:
    reason = " ".join(str(error).split())[:200] or "no reason given"
    return TraceError(
        f"operation {operation.kind} of node {operation.name!r} on {operation.shapes}",
        expected="operands that fit together",
        found=f"{type(error).__name__}: {reason}",
        hint="If the graph is sound, give input_shapes that the network takes.",
    )


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    from onnx import helper  # noqa: PLC0415 (an extra)

    def plain(value: Any) -> Any:
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

    return {a.name: plain(helper.get_attribute_value(a)) for a in node.attribute}


def _reads(graph: onnx.GraphProto) -> Counter[str]:
    """How often each value is read, inner graphs and outputs included."""
    from weightspace.importers.onnx.reading import graphs_of  # noqa: PLC0415 (an extra)

    counts: Counter[str] = Counter()
    for one in graphs_of(graph):
        counts.update(name for node in one.node for name in node.input)
        counts.update(output.name for output in one.output)
    return counts


def _statistics(graph: onnx.GraphProto) -> set[str]:
    """The initializers that are running statistics: buffers, not parameters."""
    return {
        node.input[place]
        for node in graph.node
        for place in _STATISTICS.get(node.op_type, ())
        if place < len(node.input)
    }
