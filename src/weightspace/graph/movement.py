"""What moves networks' parameters without a change of their functions, however it is given."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from torch import Tensor

from weightspace.graph.binding import Piece
from weightspace.graph.layout import piece_grid
from weightspace.graph.neural_graph import NeuralGraph, State
from weightspace.graph.spec import GraphSpec


class Movement(ABC):
    """Acts on stacked state dicts, graphs and values of neurons alike.

    Args:
        spec: the structure it acts on.
    """

    spec: GraphSpec

    @abstractmethod
    def act_stacked(self, stacked: State) -> dict[str, Tensor]:
        """Act on a stacked state dict."""

    @abstractmethod
    def _moves(self, piece: Piece) -> bool:
        """Whether a piece's values change."""

    @abstractmethod
    def _act_piece(self, piece: Piece, old: Tensor) -> Tensor:
        """The values of a piece afterwards, with every factor as a dimension."""

    @abstractmethod
    def _permute(self, grid: Tensor, axes: list[str | None]) -> Tensor:
        """Reorder a batch of values whose further dimensions are axes."""

    def act_graph(self, graph: NeuralGraph) -> NeuralGraph:
        """Act on a neural graph, its further node features included.

        Further features are values of neurons (such as activations): they are permuted, and
        are only unchanged otherwise if nothing is multiplied by factors.
        """
        moved = NeuralGraph.from_stacked(self.spec, self.act_stacked(graph.stacked_state()))
        extra = {
            key: {name: self.act_nodes(name, tensor) for name, tensor in values.items()}
            for key, values in graph.extra.items()
        }
        return replace(moved, extra=extra)

    def act_nodes(self, node_set: str, values: Tensor) -> Tensor:
        """Permute values ``[batch, neurons, channels]`` of a node set's neurons."""
        axes = self.spec.node_set(node_set).axes
        sizes = [self.spec.axis(axis).size for axis in axes]
        grid = values.reshape(values.shape[0], *sizes, *values.shape[2:])
        return self._permute(grid, list(axes)).reshape(values.shape)

    def _act_tensor(self, parameter: str, old: Tensor) -> Tensor:
        """Act on one stacked tensor; the tensor itself is given back if nothing moves it."""
        pieces = [p for p in pieces_of(self.spec).get(parameter, ()) if self._moves(p)]
        if not pieces:
            return old
        if len(pieces) == 1 and math.prod(pieces[0].grid) == math.prod(old.shape[1:]):
            return self._act_piece(pieces[0], old).reshape(old.shape)
        new = old.clone()
        for piece in pieces:
            piece_grid(piece, new).copy_(self._act_piece(piece, old))
        return new


@lru_cache(maxsize=64)
def pieces_of(spec: GraphSpec) -> Mapping[str, tuple[Piece, ...]]:
    """The pieces of every tensor; values that several pieces hold come once."""
    found: dict[str, dict[object, Piece]] = {}
    for piece in spec.pieces:
        found.setdefault(piece.parameter, {}).setdefault(piece.cells, piece)
    return {name: tuple(pieces.values()) for name, pieces in found.items()}
