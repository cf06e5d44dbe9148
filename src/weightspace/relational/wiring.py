"""A graph laid over the input and output channels of one layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool
from torch import Tensor

from weightspace.errors import GraphError
from weightspace.relational.graph import RelationalGraph
from weightspace.relational.node_sizes import node_sizes

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Wiring:
    """Which output channels of a layer are joined with which input channels.

    The channels of a node stand side by side; those of joined nodes, and those of a node and
    itself, are fully connected (You et al. 2020, section 2.2).

    Args:
        graph: on the nodes.
        in_sizes: the number of input channels of each node.
        out_sizes: the number of output channels of each node.

    Raises:
        GraphError: the sizes are not one positive number for each node.

    >>> path = RelationalGraph.from_edges(3, [(0, 1), (1, 2)])
    >>> Wiring(path, (1, 1, 1), (1, 2, 1)).mask().int()
    tensor([[1, 1, 0],
            [1, 1, 1],
            [1, 1, 1],
            [0, 1, 1]], dtype=torch.int32)
    """

    graph: RelationalGraph
    in_sizes: Sizes
    out_sizes: Sizes

    def __post_init__(self) -> None:
        for side, sizes in (("input", self.in_sizes), ("output", self.out_sizes)):
            if len(sizes) != self.graph.n or min(sizes) < 1:
                raise GraphError(
                    f"{side} sizes",
                    expected=f"a positive number of channels for each of {self.graph.n} nodes",
                    found=f"{len(sizes)} numbers, the smallest {min(sizes, default=0)}",
                )

    @classmethod
    def between(
        cls,
        graph: RelationalGraph,
        width_in: int,
        width_out: int,
        *,
        order: Sequence[int] | None = None,
        subject: object = "layer",
    ) -> Wiring:
        """The wiring of a layer with these numbers of channels, shared out as published.

        Args:
            graph: on the nodes.
            width_in: the number of input channels.
            width_out: the number of output channels.
            order: if given, node ``order[i]`` stands in place i: another order of the
                channels of the same network.
            subject: what an error names.

        Raises:
            GraphError: the graph has more nodes than one side has channels.
        """
        width_sizes = [
            node_sizes(width, graph.n, subject=f"{subject}, {side}")
            for side, width in (("input", width_in), ("output", width_out))
        ]
        if order is not None:
            graph = graph.permuted(order)
            width_sizes = [tuple(sizes[node] for node in order) for sizes in width_sizes]
        return cls(graph, width_sizes[0], width_sizes[1])

    @property
    def width_in(self) -> int:
        """The number of input channels."""
        return sum(self.in_sizes)

    @property
    def width_out(self) -> int:
        """The number of output channels."""
        return sum(self.out_sizes)

    @cached_property
    def joined(self) -> npt.NDArray[np.bool_]:
        """The graph's adjacency with its self-edges."""
        joined: npt.NDArray[np.bool_] = self.graph.adjacency | np.eye(self.graph.n, dtype=bool)
        return joined

    @cached_property
    def connections(self) -> int:
        """The number of connected pairs of channels."""
        return int(np.array(self.out_sizes) @ self.joined.astype(np.int64) @ self.in_sizes)

    @property
    def density(self) -> float:
        """The share of pairs of channels that are connected."""
        return self.connections / (self.width_in * self.width_out)

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells two wirings apart, hashable."""
        return self.graph.fingerprint, self.in_sizes, self.out_sizes

    def mask(self) -> Bool[Tensor, "out in"]:
        """Which weights there are: rows are output channels, columns input channels."""
        rows = np.repeat(self.joined, self.out_sizes, axis=0)
        return torch.from_numpy(np.repeat(rows, self.in_sizes, axis=1))

    def channels(self, side: str) -> list[range]:
        """The channels of each node on one side, ``"in"`` or ``"out"``."""
        sizes = self.in_sizes if side == "in" else self.out_sizes
        ends = np.cumsum(sizes)
        return [range(int(end) - size, int(end)) for end, size in zip(ends, sizes, strict=True)]
