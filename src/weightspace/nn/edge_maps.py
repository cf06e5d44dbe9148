"""Linear maps of edge states, arranged so that few large tensors are written."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn


class DirectedMap(NamedTuple):
    """A linear map for edge states along connections, and one for those against them.

    Args:
        weight: ``[2, out, in]``.
        bias: ``[2, out]``.
    """

    weight: Float[Tensor, "two out in"]
    bias: Float[Tensor, "two out"]

    @classmethod
    def of(cls, layer: nn.Linear) -> DirectedMap:
        """The map of a linear layer with a bias, the same in both directions."""
        return cls(torch.stack([layer.weight] * 2), torch.stack([layer.bias] * 2))

    def after(self, inner: DirectedMap) -> DirectedMap:
        """The composition ``x -> self(inner(x))``.

        Edge states are only ever used through linear maps. So the last linear map of whoever
        writes them is not applied but multiplied into the readers' own, which saves a product
        and a large tensor in every layer.
        """
        bias = torch.baddbmm(self.bias.unsqueeze(-1), self.weight, inner.bias.unsqueeze(-1))
        return DirectedMap(self.weight @ inner.weight, bias.squeeze(-1))

    def __call__(self, edges: Float[Tensor, "two edges in"]) -> Float[Tensor, "two edges out"]:
        """Apply the map."""
        return torch.baddbmm(self.bias.unsqueeze(1), edges, self.weight.transpose(1, 2))
