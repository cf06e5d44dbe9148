"""Batches of networks of several architectures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from weightspace.errors import StateError
from weightspace.graph.caches import lasting
from weightspace.graph.neural_graph import NeuralGraph
from weightspace.graph.spec import GraphSpec


@dataclass(frozen=True, eq=False)
class MixedGraph:
    """Networks of one spec or of many, in an order of their own.

    Args:
        parts: the networks, those of one spec together.
        order: network ``i`` of the batch is row ``order[i]`` of the parts one after another.

    Raises:
        StateError: there are no networks, or the order does not name each once.

    >>> from weightspace.graph import chain_spec
    >>> specs = [chain_spec([2, 3, 1]), chain_spec([2, 5, 1]), chain_spec([2, 3, 1])]
    >>> states = [{p.name: torch.zeros(p.shape) for p in spec.parameters} for spec in specs]
    >>> graphs = [NeuralGraph.from_states(s, [x]) for s, x in zip(specs, states)]
    >>> mixed = MixedGraph.of(graphs)
    >>> len(mixed.parts), mixed.order
    (2, (0, 2, 1))
    """

    parts: tuple[NeuralGraph, ...]
    order: tuple[int, ...]

    def __post_init__(self) -> None:
        total = sum(part.batch_size for part in self.parts)
        if total == 0:
            raise StateError("batch", expected="at least one network", found="none")
        if sorted(self.order) != list(range(total)):
            raise StateError(
                "order of a batch",
                expected=f"each of {total} rows once",
                found=f"{len(self.order)} indices",
            )

    @classmethod
    def of(cls, graphs: NeuralGraph | MixedGraph | Sequence[NeuralGraph]) -> MixedGraph:
        """Join graphs into one batch whose networks keep their order.

        Raises:
            StateError: there are no networks, or something else is among them.
        """
        if isinstance(graphs, MixedGraph):
            return graphs
        if isinstance(graphs, NeuralGraph):
            return cls((graphs,), tuple(range(graphs.batch_size)))
        graphs = _checked(graphs)
        groups: dict[GraphSpec, list[tuple[int, NeuralGraph]]] = {}
        place = 0
        for graph in graphs:
            groups.setdefault(graph.spec, []).append((place, graph))
            place += graph.batch_size
        rows = [
            start + i
            for members in groups.values()
            for start, graph in members
            for i in range(graph.batch_size)
        ]
        order = sorted(range(place), key=rows.__getitem__)
        parts = tuple(_joined([graph for _, graph in members]) for members in groups.values())
        return cls(parts, tuple(order))

    @property
    def batch_size(self) -> int:
        """How many networks the batch holds."""
        return len(self.order)

    def __len__(self) -> int:
        return self.batch_size

    @cached_property
    def specs(self) -> tuple[GraphSpec, ...]:
        """The spec of each part."""
        return tuple(part.spec for part in self.parts)

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.parts[0].device

    def to(self, target: torch.device | torch.dtype | str) -> MixedGraph:
        """Move every tensor to a device, or every floating-point tensor to a type."""
        return self.map_parts(lambda part: part.to(target))

    def map_parts(self, function: Callable[[NeuralGraph], NeuralGraph]) -> MixedGraph:
        """Apply a function that keeps specs and batch sizes to every part."""
        return MixedGraph(tuple(function(part) for part in self.parts), self.order)

    def in_order(self, rows: Tensor) -> Tensor:
        """Bring values of the parts' networks, one after another, to the batch's order."""
        if self.order == tuple(range(len(self.order))):
            return rows
        return rows.index_select(0, self._index.to(rows.device))

    @cached_property
    @lasting
    def _index(self) -> Int[Tensor, " batch"]:
        return torch.tensor(self.order)

    def networks(self) -> list[NeuralGraph]:
        """Every network by itself, in the batch's order."""
        single = [part[[i]] for part in self.parts for i in range(part.batch_size)]
        return [single[row] for row in self.order]


Batch = NeuralGraph | MixedGraph
"""What metanetworks read: networks of one spec, or of several."""


def _checked(graphs: object) -> list[NeuralGraph]:
    several = isinstance(graphs, Iterable) and not isinstance(graphs, Tensor | Mapping)
    found: list[Any] = list(graphs) if several else [graphs]  # type: ignore[call-overload]
    wrong = [type(graph).__name__ for graph in found if not isinstance(graph, NeuralGraph)]
    if wrong:
        raise StateError(
            "batch",
            expected="a NeuralGraph, a MixedGraph or a list of NeuralGraphs",
            found=f"a {wrong[0]}",
            hint="NeuralGraph.from_states reads state dicts, weightspace.from_module a module.",
        )
    return found


def _joined(graphs: list[NeuralGraph]) -> NeuralGraph:
    if len(graphs) == 1:
        return graphs[0]
    stacks = [graph.stacked_state() for graph in graphs]
    together = {name: torch.cat([stack[name] for stack in stacks]) for name in stacks[0]}
    return NeuralGraph.from_stacked(graphs[0].spec, together)
