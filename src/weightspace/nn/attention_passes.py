"""What relational attention does with all pairs: a pass forward and one backward."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from weightspace.nn.pair_layout import PairLayout


class AttentionInputs(NamedTuple):
    """The tensors that attention is computed from, or their gradients.

    Args:
        pairs: states of pairs.
        weight: of the maps to queries, keys and factors, below one another.
        bias: of the factors.
        queries: of nodes.
        keys: of all that can be attended to.
        values: the same.
    """

    pairs: Float[Tensor, "pairs d"]
    weight: Float[Tensor, "three_a d"]
    bias: Float[Tensor, " a"]
    queries: Float[Tensor, "nodes a"]
    keys: Float[Tensor, "senders a"]
    values: Float[Tensor, "senders a"]


class Given(NamedTuple):
    """At each receiver of a grid: gradients of the results, and their product with them.

    Args:
        mixed: gradient of the sums of values.
        pooled: gradient of the sums of pair states.
        common: for each head, the product of both with the sums.
    """

    mixed: Float[Tensor, "received a"]
    pooled: Float[Tensor, "received heads_d"]
    common: Float[Tensor, "received heads"]

    def of(self, received: slice) -> Given:
        """Those of some receivers."""
        return Given(*(tensor[received] for tensor in self))


class Attended(NamedTuple):
    """The results of attention.

    Args:
        mixed: weighted sums of values at each node.
        pooled: weighted sums of pair states at each node.
        shares: the weights.
    """

    mixed: Float[Tensor, "nodes a"]
    pooled: Float[Tensor, "nodes heads_d"]
    shares: Float[Tensor, "pairs heads"]


class AttentionPasses(ABC):
    """The passes."""

    @abstractmethod
    def forward(self, layout: PairLayout, inputs: AttentionInputs, heads: int) -> Attended:
        """Attend."""

    @abstractmethod
    def backward(
        self,
        layout: PairLayout,
        inputs: AttentionInputs,
        shares: Float[Tensor, "pairs heads"],
        given: Given,
    ) -> AttentionInputs:
        """The gradients of the inputs."""
