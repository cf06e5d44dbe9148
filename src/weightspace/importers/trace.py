"""Following every dimension of every value through an exported network."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export.graph_signature import InputKind, OutputKind

from weightspace.errors import TraceError
from weightspace.importers.atoms import Atom, Dim, fixed, leaves, pin
from weightspace.importers.call import RULES, Call
from weightspace.importers.exporting import Exported
from weightspace.importers.value import Draw, Value

_SILENT = {"_assert_tensor_metadata", "_assert_scalar", "_assert_async", "sym_constrain_range"}


@dataclass(slots=True)
class Trace:
    """A network whose dimensions are all known.

    Args:
        values: every tensor, in the order of computation.
        tensors: the value of each tensor of the state dict that the network uses.
        inputs: the values of the example inputs.
        outputs: the values of the results.
        spaces: the dimensions of every index space: nested axes must hold in each.
        integers: the values of tensors of the state dict that hold no real numbers.
    """

    values: list[Value] = field(default_factory=list)
    tensors: dict[str, Value] = field(default_factory=dict)
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    spaces: list[tuple[Dim, ...]] = field(default_factory=list)
    integers: dict[str, Value] = field(default_factory=dict)


def trace(exported: Exported) -> Trace:
    """Walk an exported network and derive the meaning of every dimension.

    Raises:
        TraceError: an operation has no rule.
    """
    return _Tracer(exported).run()


class _Tracer:
    def __init__(self, exported: Exported) -> None:
        self.exported = exported
        self.trace = Trace()
        self.known: dict[fx.Node, Any] = {}

    def run(self) -> Trace:
        program = self.exported.program
        specs = iter(program.graph_signature.input_specs)
        for node in program.graph.nodes:
            if node.op == "placeholder":
                self.known[node] = self._enter(node, next(specs))
        results = self._walk(program.graph_module, program.graph)
        kinds = program.graph_signature.output_specs
        for result, spec in zip(results, kinds, strict=True):
            if isinstance(result, Value) and spec.kind == OutputKind.USER_OUTPUT:
                self._leave(result)
        return self.trace

    # -- the ends ------------------------------------------------------------------------

    def _enter(self, node: fx.Node, spec: Any) -> Any:
        tensor = node.meta.get("val")
        if not isinstance(tensor, Tensor):
            return tensor if spec.kind != InputKind.USER_INPUT else node.meta.get("val")
        shape = tuple(as_number(n) for n in tensor.shape)
        persistent = spec.kind == InputKind.PARAMETER or (
            spec.kind == InputKind.BUFFER and spec.persistent is not False
        )
        if spec.kind == InputKind.USER_INPUT:
            return self._input(node.name, shape)
        if persistent and self.exported.canonical(spec.target) in self.exported.state:
            return self._tensor(spec.target, shape)
        return self._constant(node.name, self.exported.constant(spec.target), shape)

    def _input(self, name: str, shape: tuple[int, ...]) -> Value:
        dims = tuple(_fixed_input(size) for size in shape)
        value = Value(name, dims, "activation", Draw("input"), shape)
        self.trace.inputs.append(value)
        return self._keep(value)

    def _tensor(self, target: str, shape: tuple[int, ...]) -> Value:
        target = self.exported.canonical(target)
        known = self.trace.tensors.get(target) or self.trace.integers.get(target)
        if known is not None:
            return known
        numbers = self.exported.state[target]
        if not numbers.is_floating_point():
            return self._fixed(target, shape, complex_=numbers.is_complex())
        dims: tuple[Dim, ...] = tuple((Atom(size),) for size in shape)
        value = Value(target, dims, "parameter", Draw("parameter"), shape)
        value.origins = tuple(frozenset({(target, i)}) for i in range(len(shape)))
        value.roots = frozenset({target})
        value.exact = tuple((target, i, 0) for i in range(len(shape)))
        self.trace.tensors[target] = value
        return self._keep(value)

    def _fixed(self, target: str, shape: tuple[int, ...], *, complex_: bool) -> Value:
        """A tensor without real numbers: a constant of the network."""
        reason = "complex numbers" if complex_ else "integers, which count or point"
        dims = tuple(fixed(size, reason) for size in shape)
        value = Value(target, dims, "constant", Draw("constant"), shape)
        self.trace.integers[target] = value
        return self._keep(value)

    def _constant(self, name: str, tensor: Tensor | None, shape: tuple[int, ...]) -> Value:
        """A constant: dimensions along which it does not vary are free to move."""
        dims = tuple(
            (Atom(size),)
            if tensor is not None and _uniform(tensor, i)
            else fixed(size, "a constant")
            for i, size in enumerate(shape)
        )
        return self._keep(Value(name, dims, "constant", Draw("constant"), shape))

    def _leave(self, value: Value) -> None:
        self.trace.outputs.append(value)
        if value.kind == "constant":
            return
        for dim in value.dims:
            pin(dim, "outputs have meanings of their own")
            for leaf in leaves(dim):
                leaf.role = leaf.role or "output"

    # -- the operations ------------------------------------------------------------------

    def _walk(self, module: nn.Module, graph: fx.Graph) -> Sequence[Any]:
        for node in graph.nodes:
            if node.op == "get_attr":
                self.known[node] = self._attribute(module, node)
            elif node.op == "call_function":
                self.known[node] = self._call(module, node)
            elif node.op == "output":
                results = self._look_up(node.args[0])
                return results if isinstance(results, (tuple, list)) else (results,)
        return ()

    def _attribute(self, module: nn.Module, node: fx.Node) -> Any:
        found: Any = module
        for part in str(node.target).split("."):
            found = getattr(found, part)
        if isinstance(found, Tensor):
            return self._constant(node.name, found, tuple(found.shape))
        return found

    def _call(self, module: nn.Module, node: fx.Node) -> Any:
        if node.target is operator.getitem:
            return self._look_up(node.args[0])[node.args[1]]
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            return self._region(node)
        number = node.meta.get("val")
        if isinstance(number, (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)):
            return as_number(number)
        if not isinstance(node.target, torch._ops.OpOverload):
            return number
        name = node.target._schema.name.split("::")[1]
        if name in _SILENT:
            return None
        call = Call(
            name,
            node.name,
            self._arguments(node),
            _shapes(node),
            _path(node),
            self.trace.spaces,
            _used(node),
        )
        if name not in RULES:
            raise call.fail("an operation with a rule", _found(call))
        try:
            result = RULES[name](call)
        except TraceError:
            raise
        except (AssertionError, IndexError, KeyError, TypeError, AttributeError, ValueError) as e:
            raise call.fail("an operation that its rule can follow", repr(e)) from e
        for value in result if isinstance(result, tuple) else (result,):
            if value is not None:
                self._keep(value)
        return result

    def _region(self, node: fx.Node) -> Any:
        """A region that only changes gradient or precision modes is followed as if inlined."""
        name = str(node.target)
        arguments = [self._look_up(argument) for argument in node.args]
        modules = [a for a in arguments if isinstance(a, fx.GraphModule)]
        if len(modules) != 1 or not name.startswith("wrap"):
            raise TraceError(
                f"control flow {name} in module {_path(node) or '(the network itself)'}",
                expected="a network without branches or loops that depend on data",
                found=f"{len(modules)} branches",
                hint="Export the branch that is taken on its own.",
            )
        operands = arguments[arguments.index(modules[0]) + 1 :]
        inner = [n for n in modules[0].graph.nodes if n.op == "placeholder"]
        self.known.update(zip(inner, operands, strict=True))
        return tuple(self._walk(modules[0], modules[0].graph))

    # -- helpers -------------------------------------------------------------------------

    def _arguments(self, node: fx.Node) -> Mapping[str, Any]:
        assert isinstance(node.target, torch._ops.OpOverload)
        schema = node.target._schema.arguments
        names = [argument.name for argument in schema]
        given = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
        return {
            a.name: self._look_up(given[a.name])
            if a.name in given
            else (a.default_value if a.has_default_value() else None)
            for a in schema
        }

    def _look_up(self, argument: Any) -> Any:
        if isinstance(argument, fx.Node):
            return self.known[argument]
        if isinstance(argument, torch.SymInt):
            return as_number(argument)
        if isinstance(argument, (list, tuple)):
            return [self._look_up(item) for item in argument]
        return argument

    def _keep(self, value: Value) -> Value:
        self.trace.values.append(value)
        self.trace.spaces.append(value.dims)
        return value


def _fixed_input(size: int) -> Dim:
    atom = Atom(size, pin="inputs have meanings of their own", plain=True)
    atom.role = "input"
    return (atom,)


def _uniform(tensor: Tensor, dim: int) -> bool:
    if tensor.shape[dim] <= 1 or tensor.numel() == 0:
        return True
    return torch.equal(tensor, tensor.select(dim, 0).unsqueeze(dim).expand_as(tensor))


_PRIMES = (10007, 10009, 10037, 10039, 10061, 10067, 10069, 10079, 10091, 10093)


def as_number(number: Any) -> Any:
    """A size; one that depends on data is what it is for the example inputs, where known.

    Elsewhere a prime of its own stands for it: only whether sizes are equal, and what divides
    them, matters to a trace.
    """
    if not isinstance(number, torch.SymInt):
        return number
    expression = number.node.expr.xreplace(number.node.shape_env.real_tensor_prop_unbacked_vals)
    symbols = sorted(expression.free_symbols, key=str)
    primes = {s: _prime(int("".join(filter(str.isdigit, str(s))) or 0)) for s in symbols}
    return int(expression.xreplace(primes))


def _prime(place: int) -> int:
    """A prime for each unknown, large enough to equal no real size by chance."""
    return _PRIMES[place % len(_PRIMES)]


def _shapes(node: fx.Node) -> tuple[tuple[int, ...] | None, ...]:
    value = node.meta.get("val")
    items = value if isinstance(value, (tuple, list)) else (value,)
    return tuple(
        tuple(as_number(n) for n in item.shape) if isinstance(item, Tensor) else None
        for item in items
    )


def _used(node: fx.Node) -> frozenset[int]:
    """Which of several results anything reads."""
    reads = [u for u in node.users if u.target is operator.getitem and u.users]
    return frozenset(u.args[1] for u in reads if isinstance(u.args[1], int))


def _path(node: fx.Node) -> str:
    stack = node.meta.get("nn_module_stack") or {}
    paths = [entry[0] for entry in stack.values()]
    return str(paths[-1]) if paths else ""


def _found(call: Call) -> str:
    shapes = ", ".join(str(value.shape) for value in call.tensors) or "no tensors"
    return f"aten.{call.name} on {shapes}"
