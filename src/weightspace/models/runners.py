"""Running the networks that a metanetwork examines on inputs of its choice."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.errors import ModelError
from weightspace.graph import ChainRunner, GraphSpec, NeuralGraph, State
from weightspace.graph.caches import no_memory


class Runner(Protocol):
    """Runs all networks of a graph on the same inputs, differentiable in both.

    Args:
        values: of one input, flat.
        answers: output values for one input, flat.
    """

    @property
    def values(self) -> int: ...  # noqa: D102

    @property
    def answers(self) -> int: ...  # noqa: D102

    def check(self, spec: GraphSpec) -> None:
        """Check that networks of a spec can be run.

        Raises:
            ModelError: they cannot.
        """

    def __call__(
        self, graph: NeuralGraph, inputs: Float[Tensor, "points values"]
    ) -> Float[Tensor, "networks points answers"]:
        """Run the networks."""


class ChainsRunner:
    """Runs chains of linear layers from their spec alone.

    Args:
        values: input neurons.
        answers: output neurons.

    >>> from weightspace.graph import chain_spec
    >>> spec = chain_spec([2, 4, 1], activations="tanh")
    >>> state = {p.name: torch.ones(p.shape) for p in spec.parameters}
    >>> ChainsRunner(2, 1)(NeuralGraph.from_states(spec, [state]), torch.zeros(5, 2)).shape
    torch.Size([1, 5, 1])
    """

    def __init__(self, values: int, answers: int) -> None:
        self.values, self.answers = values, answers

    def check(self, spec: GraphSpec) -> None:
        """Check that a spec is a chain of known activations.

        Raises:
            ModelError: naming the node set or block that stands in the way.
        """
        check_runnable(
            spec,
            hint="Give the model a runner of the networks' module (weightspace.models."
            "ModuleRunner), or use a model that reads weights alone, such as ng-gnn or stat-nn.",
        )

    def __call__(
        self, graph: NeuralGraph, inputs: Float[Tensor, "points values"]
    ) -> Float[Tensor, "networks points answers"]:
        """Run the networks, one batched product a layer."""
        values = ChainRunner(graph.spec).run_stacked(graph.stacked_state(), inputs)
        return values[graph.spec.node_sets[-1].name]


class ModuleRunner:
    """Runs networks of any kind through the modules they were read from.

    A module stands for all networks of its spec: it runs in evaluation mode with their tensors
    in place of its own, all networks at once (``torch.func``).

    Args:
        modules: a module for each spec, such as those given to :func:`weightspace.from_module`.
        shape: of one input, without the batch: ``(3, 32, 32)``.

    Raises:
        ModelError: the modules give outputs of different sizes, or something that is no tensor.

    >>> from weightspace.graph import chain_spec
    >>> spec = chain_spec([2, 4, 1], layer_names=["0", "2"])
    >>> module = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    >>> ModuleRunner({spec: module}, (2,)).answers
    1
    """

    def __init__(self, modules: Mapping[GraphSpec, nn.Module], shape: Sequence[int]) -> None:
        self.modules, self.shape = dict(modules), tuple(shape)
        self.values = math.prod(self.shape)
        sizes = {self._answers(module) for module in self.modules.values()}
        if len(sizes) != 1:
            raise ModelError(
                "modules", expected="outputs of one size", found=f"sizes {sorted(sizes)}"
            )
        (self.answers,) = sizes

    def _answers(self, module: nn.Module) -> int:
        own: dict[str, Tensor] = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        like = next((t for t in own.values() if t.is_floating_point()), torch.zeros(()))
        with torch.no_grad():
            result = self._run(module, own, torch.zeros(2, *self.shape).to(like))
        return result[0].numel()

    def _run(self, module: nn.Module, state: State, inputs: Tensor) -> Tensor:
        """The output of a module in evaluation mode, a row for each input."""
        modes = [(part, part.training) for part in module.modules()]
        fast = torch.backends.mha.get_fastpath_enabled()
        module.eval()
        torch.backends.mha.set_fastpath_enabled(False)  # it runs one network at a time
        try:
            with no_memory(module):
                result = torch.func.functional_call(module, dict(state), (inputs,))
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)
            for part, training in modes:
                part.training = training
        if not isinstance(result, Tensor) or result.shape[:1] != inputs.shape[:1]:
            raise ModelError(
                f"module {type(module).__name__}",
                expected="a tensor with a row for each input",
                found=f"shape {tuple(result.shape)}"
                if isinstance(result, Tensor)
                else type(result).__name__,
                hint="Wrap the module in one that gives its output as a tensor.",
            )
        return result

    def check(self, spec: GraphSpec) -> None:
        """Check that there is a module for a spec.

        Raises:
            ModelError: there is none.
        """
        if spec not in self.modules:
            raise ModelError(
                "networks",
                expected=f"one of the {len(self.modules)} specs that the runner has modules for",
                found=f"spec {spec.fingerprint}",
                hint="Give the runner a module of this architecture.",
            )

    def __call__(
        self, graph: NeuralGraph, inputs: Float[Tensor, "points values"]
    ) -> Float[Tensor, "networks points answers"]:
        """Run the networks, all at once."""
        module = self.modules[graph.spec]
        second = {i.parameter.name for i in graph.spec.left_out if i.same_as is not None}
        state = {n: t for n, t in graph.stacked_state().items() if n not in second}
        points = inputs.reshape(-1, *self.shape)
        run = torch.func.vmap(lambda one: self._run(module, one, points))
        return run(state).reshape(graph.batch_size, len(points), -1)


def check_runnable(spec: GraphSpec, *, hint: str) -> None:
    """Check that networks can be run from their spec: chains of known activations.

    Args:
        spec: the networks' structure.
        hint: what to do if they cannot.

    Raises:
        ModelError: naming the node set or block that stands in the way.
    """
    for node_set in spec.node_sets:
        if node_set.activation.name == "unknown":
            raise ModelError(
                f"node set {node_set.name}",
                expected="a known activation, so that the network can be run",
                found="an unknown one",
                hint=hint,
            )
    for block, ends in itertools.zip_longest(spec.blocks, itertools.pairwise(spec.node_sets)):
        wanted = None if ends is None else (ends[0].name, ends[1].name)
        found = None if block is None else (block.source, block.target)
        plain = block is not None and block.kind == "dense" and block.features == 1
        if not plain or found != wanted or len(block.pieces) != 1:
            raise ModelError(
                f"node set {ends[1].name}" if block is None else f"block {block.name}",
                expected="one linear layer from each node set to the next, which can be run",
                found="none"
                if block is None
                else f"a {block.kind} block from {block.source} to {block.target} with "
                f"{block.features} values a connection",
                hint=hint,
            )
    _check_own_neurons(spec, hint)


def _check_own_neurons(spec: GraphSpec, hint: str) -> None:
    """Check that every node set has neurons of its own, one bias, and outputs at the end.

    Where a layer or a weight is used twice, the spec tells the connections once.
    """
    first: dict[tuple[str, ...], str] = {}
    for node_set in spec.node_sets:
        before = first.setdefault(node_set.axes, node_set.name)
        if before != node_set.name or len(node_set.pieces) > 1:
            raise ModelError(
                f"node set {node_set.name}",
                expected="neurons of its own with at most one bias, so that it can be run",
                found=f"those of {before}" if before != node_set.name else "several values each",
                hint=hint,
            )
    if spec.node_sets[-1].role != "output":
        raise ModelError(
            f"node set {spec.node_sets[-1].name}",
            expected="output neurons at the end, so that the network can be run",
            found=f"{spec.node_sets[-1].role} neurons",
            hint=hint,
        )
