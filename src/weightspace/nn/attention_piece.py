"""Relational attention on pairs few enough for the processor's cache, forward and backward."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.nn.attention_passes import Given
from weightspace.nn.head_products import HeadProducts


class AttentionMaps(NamedTuple):
    """The maps of pairs to queries, keys and factors.

    Args:
        weight: side by side, ``[d, 3 a]``.
        swapped: below one another, keys first, ``[3 a, d]``.
        bias: of the factors.
        products: of the heads.
    """

    weight: Float[Tensor, "d three_a"]
    swapped: Float[Tensor, "three_a d"]
    bias: Float[Tensor, " a"]
    products: HeadProducts

    @classmethod
    def of(cls, weight: Float[Tensor, "three_a d"], bias: Tensor, heads: int) -> AttentionMaps:
        """The maps of weights for queries, keys and factors, below one another."""
        products = HeadProducts.of(heads, len(bias), weight)
        return cls(weight.T.contiguous(), cls.unswap(weight), bias, products)

    @staticmethod
    def unswap(weight: Float[Tensor, "three_a d"]) -> Float[Tensor, "three_a d"]:
        """Exchange the weights for queries and keys."""
        query, key, factor = torch.chunk(weight, 3)
        return torch.cat([key, query, factor])


class EndGrads(NamedTuple):
    """Gradients at the ends of a piece's pairs.

    Args:
        query: ``[lead, receivers, 1, a]``.
        key: ``[lead, 1, senders, a]``.
        value: the same, but for the bias of factors.
        moved: the same, of the products of values with factors.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    moved: Tensor


class SenderSums(NamedTuple):
    """Gradients at the senders of a grid, see :class:`EndGrads`."""

    key: Tensor
    value: Tensor
    moved: Tensor

    @classmethod
    def like(cls, key: Tensor) -> SenderSums:
        """Zeros."""
        return cls(*(torch.zeros_like(key) for _ in range(3)))

    def add(self, lead: slice, found: EndGrads) -> None:
        """Add those of a piece."""
        self.key[lead] += found.key
        self.value[lead] += found.value
        self.moved[lead] += found.moved


def piece_logits(
    maps: AttentionMaps, states: Float[Tensor, "pairs d"], ends: tuple[Tensor, Tensor]
) -> Float[Tensor, "pairs heads"]:
    """Products of queries and keys.

    Args:
        maps: the maps of pairs.
        states: the pairs of a piece.
        ends: ``q`` as ``[lead, receivers, 1, a]`` and ``k`` as ``[lead, 1, senders, a]``.
    """
    query, key = ends
    width, shape = query.shape[-1], (*query.shape[:2], key.shape[2])
    asked = torch.mm(states, maps.weight[:, :width])
    offered = torch.mm(states, maps.weight[:, width : 2 * width])
    asked.view(*shape, width).add_(query)
    offered.view(*shape, width).add_(key)
    return torch.mm(asked.mul_(offered), maps.products.ones)


def piece_received(
    maps: AttentionMaps,
    states: Float[Tensor, "pairs d"],
    shares: Float[Tensor, "pairs heads"],
    value: Float[Tensor, "lead 1 senders a"],
) -> tuple[Float[Tensor, "received a"], Float[Tensor, "received heads_d"]]:
    """The weighted sums of values and of pair states at each receiver."""
    senders, width = value.shape[2:]
    factor = torch.addmm(maps.bias, states, maps.weight[:, 2 * width :])
    factor.view(len(value), -1, senders, width).mul_(value)
    rows = (len(states) // senders, senders, -1)
    share = shares.view(rows)
    pooled = torch.bmm(share.transpose(1, 2), states.view(rows))
    return maps.products.mix(share, factor.view(rows)), pooled.flatten(1)


def piece_backward(
    maps: AttentionMaps,
    states: Float[Tensor, "pairs d"],
    shares: Float[Tensor, "pairs heads"],
    ends: tuple[Tensor, Tensor, Tensor],
    given: Given,
    *,
    out: Float[Tensor, "pairs d"],
) -> tuple[Float[Tensor, "pairs three_a"], EndGrads]:
    """The gradients of a piece's projections, keys first, and of its ends.

    Args:
        maps: the maps of pairs.
        states: the pairs.
        shares: theirs of attention.
        ends: ``q``, ``k`` and ``v``, as in :func:`piece_logits`.
        given: the gradients at the receivers.
        out: where the gradient of the states through ``pooled`` is written.
    """
    query, key, value = ends
    width, shape = query.shape[-1], (*query.shape[:2], key.shape[2])
    rows = (shape[0] * shape[1], shape[2], -1)
    projected = torch.mm(states, maps.weight).view(*shape, 3 * width)
    asked, offered, factor = torch.chunk(projected, 3, -1)
    asked.add_(query)
    offered.add_(key)
    share, d_pooled = shares.view(rows), given.pooled.view(rows[0], shares.shape[1], -1)
    moved = torch.addcmul(value * maps.bias, factor, value).view(rows)
    d_share, d_moved = maps.products.mix_backward(given.mixed, share, moved)
    d_share.baddbmm_(states.view(rows), d_pooled.transpose(1, 2))
    torch.bmm(share, d_pooled, out=out.view(rows))
    d_logit = maps.products.spread(d_share.sub_(given.common.unsqueeze(1)).mul_(share))
    # in place: what multiplies the queries is the gradient of keys, and the other way round
    asked.mul_(d_logit.view(*shape, width))
    offered.mul_(d_logit.view(*shape, width))
    d_moved = d_moved.view(*shape, width)
    found = EndGrads(
        offered.sum(2, keepdim=True),
        asked.sum(1, keepdim=True),
        factor.mul_(d_moved).sum(1, keepdim=True),
        d_moved.sum(1, keepdim=True),
    )
    torch.mul(d_moved, value, out=factor)
    return projected.view(-1, 3 * width), found
