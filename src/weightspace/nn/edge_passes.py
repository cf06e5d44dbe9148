"""What NG-GNN does with all edges of a batch at once: passes, forward and backward."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from weightspace.nn.arrangement import Arrangement

Four = tuple[Tensor, Tensor, Tensor, Tensor]


class EdgeInputs(NamedTuple):
    """The edges of a batch, and the linear map ``W e + b`` that is applied to them first.

    Args:
        arrangement: of the batch.
        edges: their states, along connections and against them.
        weight: of the map, for each direction.
        bias: of the map, for each direction.
        receivers: values of all neurons as receivers.
        senders: values of all neurons as senders.
    """

    arrangement: Arrangement
    edges: Float[Tensor, "two edges d"]
    weight: Float[Tensor, "two out d"]
    bias: Float[Tensor, "two out"]
    receivers: Float[Tensor, "nodes d"]
    senders: Float[Tensor, "nodes d"]

    def received(self) -> Float[Tensor, "received d"]:
        """Room for what every neuron receives from every run."""
        return self.receivers.new_empty(self.arrangement.received_count, self.receivers.shape[-1])


class EdgeGrads(NamedTuple):
    """Gradients of the inputs; those of nodes are as received from every run, to be merged."""

    edges: Float[Tensor, "two edges d"]
    weight: Float[Tensor, "two out d"]
    bias: Float[Tensor, "two out"]
    receivers: Float[Tensor, "received d"]
    senders: Float[Tensor, "received d"]

    def in_order(self, arrangement: Arrangement) -> tuple[Tensor, ...]:
        """The gradients in the order of :class:`EdgeInputs`, those of each neuron added up."""
        merged = arrangement.merge(self.receivers), arrangement.merge(self.senders)
        return self.edges, self.weight, self.bias, *merged


class EdgePasses(ABC):
    """The passes over all edges, in both directions."""

    @abstractmethod
    def film(self, given: EdgeInputs) -> Four:
        """Aggregate ``s * (receiver + sender) + t`` with ``[s, t] = W e + b``.

        Returns:
            Sums, sums of squares, minima and maxima, ``[received, d]`` each.
        """

    @abstractmethod
    def film_backward(self, given: EdgeInputs, grads: Four) -> EdgeGrads:
        """The gradients of the inputs, from those of the four aggregates."""

    @abstractmethod
    def silu(self, given: EdgeInputs) -> Float[Tensor, "two edges d"]:
        """Compute ``SiLU(W e + b + receiver + sender)`` of every edge."""

    @abstractmethod
    def silu_backward(self, given: EdgeInputs, grad: Float[Tensor, "two edges d"]) -> EdgeGrads:
        """The gradients of the inputs, from those of the results."""
