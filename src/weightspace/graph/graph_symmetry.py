"""The symmetry of one neural graph: sample an element, act on the graph, check the module."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from weightspace.errors import SymmetryError
from weightspace.graph.caches import no_memory
from weightspace.graph.lazy_state import ActedState, GraphState
from weightspace.graph.neural_graph import NeuralGraph, State
from weightspace.graph.substitution import substituted
from weightspace.graph.symmetry import GroupElement, SymmetryGroup, SymmetryReport

Inputs = Tensor | tuple[Any, ...] | Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class GraphSymmetry:
    """The group of a neural graph's spec, together with the graph.

    >>> from weightspace.graph import chain_spec
    >>> spec = chain_spec([2, 4, 1])
    >>> graph = NeuralGraph.from_states(spec, [{p.name: torch.ones(p.shape) for p in
    ...     spec.parameters}])
    >>> graph.symmetry.act(graph.symmetry.sample()).spec is spec
    True
    """

    graph: NeuralGraph

    @property
    def group(self) -> SymmetryGroup:
        """The group of the spec."""
        return SymmetryGroup(self.graph.spec)

    @property
    def log_order(self) -> float:
        """The natural logarithm of the number of permutations in the group."""
        return self.group.log_order

    def sample(
        self,
        *,
        kinds: tuple[str, ...] = ("permutation",),
        generator: torch.Generator | None = None,
    ) -> GroupElement:
        """Draw a random element, see :meth:`SymmetryGroup.sample`."""
        return self.group.sample(generator or torch.Generator().manual_seed(0), kinds=kinds)

    def act(self, element: GroupElement) -> NeuralGraph:
        """The graph of the same function with other parameters."""
        return element.act_graph(self.graph)

    def check(
        self,
        module: nn.Module,
        inputs: Inputs,
        *,
        kinds: tuple[str, ...] = ("permutation",),
        samples: int = 3,
        generator: torch.Generator | None = None,
        index: int = 0,
    ) -> SymmetryReport:
        """Apply random elements to a network of the batch, run the module, compare.

        The module runs in evaluation mode with the graph's tensors in place of its own, and
        is left as it was. The change of each output is relative to its largest value.

        Args:
            module: the network that the graph was read from.
            inputs: as for :func:`weightspace.from_module`.
            kinds: which symmetries.
            samples: how many random elements.
            generator: the source of randomness; seeded with 0 if not given.
            index: which network of the batch.

        Raises:
            SymmetryError: the module gives no numbers to compare.
        """
        generator = generator or torch.Generator().manual_seed(0)
        state = GraphState(self.graph, index, own=module.state_dict())
        modes = [(part, part.training) for part in module.modules()]
        module.eval()
        try:
            with torch.no_grad():
                before = self.run(module, state, inputs)
                if not any(bool(output.isfinite().any()) for output in before):
                    raise SymmetryError(
                        f"module {type(module).__name__}",
                        expected="a finite number in some output, to compare",
                        found="outputs that are empty, or infinite, or not numbers",
                    )
                change = 0.0
                for _ in range(samples):
                    element = self.group.sample(generator, kinds=kinds)
                    after = self.run(module, ActedState(element, state), inputs)
                    change = max(change, largest_change(before, after))
        finally:
            for part, training in modes:
                part.training = training
        return SymmetryReport(change, samples, kinds)

    def run(self, module: nn.Module, state: State, inputs: Inputs) -> list[Tensor]:
        """Every floating-point output of a module with a state dict in place of its own.

        A module that draws random numbers draws the same ones in every run.
        """
        args = (inputs,) if isinstance(inputs, Tensor) else inputs
        # The global generators are what a module draws from; they are put back afterwards.
        with no_memory(module), substituted(module, state), torch.random.fork_rng():
            torch.manual_seed(0)
            result = module(**args) if isinstance(args, Mapping) else module(*args)
        found = list(_tensors(result))
        numbers = [x for x in found if x.is_floating_point() or x.is_complex()]
        if not numbers:
            raise SymmetryError(
                f"module {type(module).__name__}",
                expected="an output of floating-point numbers",
                found=f"{len(found)} tensors of other types",
            )
        return numbers


def _tensors(result: Any) -> Iterator[Tensor]:
    """Every tensor of a module's result, whatever containers it uses."""
    for leaf in pytree.tree_leaves(result):
        if isinstance(leaf, Tensor):
            yield leaf
        elif isinstance(leaf, Mapping):
            yield from _tensors(list(leaf.values()))
        elif dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
            yield from _tensors([getattr(leaf, f.name) for f in dataclasses.fields(leaf)])


def largest_change(before: list[Tensor], after: list[Tensor]) -> float:
    """The largest change of any output, relative to that output's largest finite value."""
    change = 0.0
    for old, new in zip(before, after, strict=True):
        if old.numel() == 0:
            continue
        usable = old.isfinite()
        if not torch.equal(usable, new.isfinite()):
            return float("inf")
        gap = (new - old).abs()[usable]
        scale = old.abs()[usable]
        if gap.numel():
            change = max(change, float(gap.max()) / (float(scale.max()) or 1.0))
    return change
