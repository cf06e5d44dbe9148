"""Products of shares of attention heads with values of all channels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

FEW = 8
"""Senders below which broadcasting is faster than a batched matrix product."""


@dataclass(frozen=True, eq=False)
class HeadProducts:
    """Sums over channels of a head and their reverse, written as matrix products.

    Channels are divided evenly into heads. A broadcast of one head's value over a dozen channels
    is slow on a CPU; a product with a matrix of zeros and ones is not, though it does more.

    Args:
        ones: ``[a, heads]``, one where a channel is a head's.
    """

    ones: Float[Tensor, "a heads"]

    @classmethod
    def of(cls, heads: int, width: int, like: Tensor) -> HeadProducts:
        """The products of some heads over ``width`` channels.

        >>> products = HeadProducts.of(2, 4, torch.zeros(1))
        >>> products.spread(torch.tensor([[1.0, 2.0]]))
        tensor([[1., 1., 2., 2.]])
        """
        eye = torch.eye(heads, dtype=like.dtype, device=like.device)
        return cls(eye.repeat_interleave(width // heads, dim=0))

    def spread(self, shares: Float[Tensor, "... heads"]) -> Float[Tensor, "... a"]:
        """Give every channel its head's value."""
        return shares @ self.ones.T

    def mix(
        self, shares: Float[Tensor, "rows senders heads"], values: Float[Tensor, "rows senders a"]
    ) -> Float[Tensor, "rows a"]:
        """Sum values over senders, each channel with its head's shares."""
        if shares.shape[1] < FEW:
            return (self.spread(shares) * values).sum(1)
        heads = shares.shape[2]
        # every head's shares with all channels, of which the head's own are kept
        crossed = torch.bmm(shares.transpose(1, 2), values).view(len(shares), heads, heads, -1)
        return crossed.diagonal(dim1=1, dim2=2).transpose(1, 2).flatten(1)

    def mix_backward(
        self,
        grad: Float[Tensor, "rows a"],
        shares: Float[Tensor, "rows senders heads"],
        values: Float[Tensor, "rows senders a"],
    ) -> tuple[Float[Tensor, "rows senders heads"], Float[Tensor, "rows senders a"]]:
        """The gradients of shares and values in :meth:`mix`; overwrites the values."""
        if shares.shape[1] < FEW:
            given = grad.unsqueeze(1)
            d_shares = (values * given) @ self.ones
            return d_shares, torch.mul(self.spread(shares), given, out=values)
        crossed = grad.unsqueeze(2) * self.ones
        d_shares = torch.bmm(values, crossed)
        return d_shares, torch.bmm(shares, crossed.transpose(1, 2), out=values)
