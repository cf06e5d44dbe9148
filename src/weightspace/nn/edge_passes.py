"""What NG-GNN does with all edges of one direction at once: passes, forward and backward."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from weightspace.nn.pieces import Direction, Ends

Four = tuple[Tensor, Tensor, Tensor, Tensor]


class LiftedEdges(NamedTuple):
    """The edges of a direction and the linear map ``W e + b`` that is applied to them first.

    Args:
        way: the direction.
        edges: the states of its run's edges.
        weight: of the map.
        bias: of the map.
        ends: values of the edges' receivers and senders.
    """

    way: Direction
    edges: Float[Tensor, "edges d"]
    weight: Float[Tensor, "out d"]
    bias: Float[Tensor, " out"]
    ends: Ends


class EdgePasses(ABC):
    """The passes; gradients of edges are written to ``d_edges``, others are returned."""

    @abstractmethod
    def film(self, lifted: LiftedEdges) -> Four:
        """Aggregate ``s * (receiver + sender) + t`` with ``[s, t] = W e + b``.

        Returns:
            Sums, sums of squares, minima and maxima, ``[lead, receivers, d]`` each.
        """

    @abstractmethod
    def film_backward(
        self, lifted: LiftedEdges, grads: list[Tensor], d_edges: Tensor
    ) -> tuple[Tensor, Tensor, Ends]:
        """The gradients of weight, bias and ends, from those of the four aggregates."""

    @abstractmethod
    def silu(self, lifted: LiftedEdges, result: Tensor) -> None:
        """Write ``SiLU(W e + b + receiver + sender)`` of every edge to ``result``."""

    @abstractmethod
    def silu_backward(
        self, lifted: LiftedEdges, grad: Tensor, d_edges: Tensor
    ) -> tuple[Tensor, Ends]:
        """The gradients of weight and ends; every edge has one receiver, so the bias has theirs."""
