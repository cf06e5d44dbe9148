"""Attention in which every pair of neurons has a state of its own.

The plain formulas write four projections of all pairs, some gigabytes for a batch of small
networks. Here forward and backward are written out over pieces of a few thousand pairs, and
what the backward pass needs is computed again; only the weights of attention are kept.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from weightspace.nn.pair_layout import Grid, GridPiece, PairLayout, add_rows


class PairMaps(NamedTuple):
    """The linear maps of pair states to what they add to queries, keys and values.

    Args:
        weight: those to queries, to keys and to factors of values, one below the other.
        bias: of the factors.
    """

    weight: Float[Tensor, "three_a d"]
    bias: Float[Tensor, " a"]


def relational_attention(
    layout: PairLayout,
    pairs: Float[Tensor, "pairs d"],
    maps: PairMaps,
    queries: Float[Tensor, "nodes a"],
    keys: Float[Tensor, "senders a"],
    values: Float[Tensor, "senders a"],
    *,
    heads: int,
) -> tuple[Float[Tensor, "nodes a"], Float[Tensor, "nodes heads d"]]:
    """Attend from every neuron to the senders of its pairs.

    Diao and Loynd 2023, with the product of Kofinas et al. 2024, for each head:
    ``a_ij = softmax_j((q_i + Q e_ij) . (k_j + K e_ij) / sqrt(a))``, then
    ``sum_j a_ij v_j * (S e_ij + s)`` and ``sum_j a_ij e_ij``. The last stands for the part of
    values that is linear in pairs, which a map may be applied to after the sum.

    Args:
        layout: the pairs.
        pairs: their states.
        maps: ``Q``, ``K``, ``S`` and ``s``.
        queries: ``q``.
        keys: ``k``, of nodes and pools.
        values: ``v``, the same.
        heads: into which channels are divided evenly.
    """
    found: tuple[Tensor, Tensor] = _Attend.apply(  # type: ignore[no-untyped-call]
        layout, pairs, maps.weight, maps.bias, queries, keys, values, heads
    )
    return found


class _Attend(Function):
    @staticmethod
    def forward(  # noqa: PLR0917 (autograd passes by position)
        ctx: Any,
        layout: PairLayout,
        pairs: Tensor,
        weight: Tensor,
        bias: Tensor,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        heads: int,
    ) -> tuple[Tensor, Tensor]:
        logits = _logits(layout, pairs, weight, queries, keys, heads)
        shares = _softmax(layout, logits)
        received = _received(layout, pairs, weight, bias, values, shares)
        width = queries.shape[1]
        mixed = layout.add_up(received[0])
        pooled = layout.add_up(received[1])
        ctx.save_for_backward(pairs, weight, bias, queries, keys, values, shares, mixed, pooled)
        ctx.layout = layout
        return mixed.view(-1, width), pooled.view(-1, heads, pairs.shape[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_mixed: Tensor, d_pooled: Tensor) -> tuple[Tensor | None, ...]:
        pairs, weight, bias, queries, keys, values, shares, mixed, pooled = ctx.saved_tensors
        layout: PairLayout = ctx.layout
        heads = shares.shape[1]
        # a change of the shares acts relative to their mean change, which the result tells
        common = (d_mixed * mixed).view(len(mixed), heads, -1).sum(-1)
        common += (d_pooled * pooled.view_as(d_pooled)).sum(-1)
        given = _Given(*map(layout.gather, (d_mixed, d_pooled.flatten(1), common)))
        grads = _Grads.like(pairs, weight, bias, queries, keys, values)
        constant = _Constants.of(weight, bias, heads)
        for grid in layout.grids:
            query, key, value = _ends(grid, queries, keys, values)
            d_key, d_value = torch.zeros_like(key), torch.zeros_like(value)
            d_query = torch.empty_like(query)
            for piece in grid.pieces():
                shape = _shape(grid, piece)
                ends = (
                    query[piece.lead, piece.rows],
                    key[piece.lead],
                    value[piece.lead],
                )
                states = pairs[piece.pairs]
                d_states = grads.pairs[piece.pairs]
                d_projected, d_ends = _backward(
                    constant,
                    states,
                    shares[piece.pairs],
                    ends,
                    given.of(piece),
                    shape,
                    d_states,
                )
                d_states.addmm_(d_projected, weight)
                grads.weight.addmm_(d_projected.T, states)
                d_query[piece.lead, piece.rows] = d_ends[0]
                d_key[piece.lead] += d_ends[1]
                d_value[piece.lead] += d_ends[2]
                grads.bias.add_(d_projected[:, -len(bias) :].sum(0))
            add_rows(grads.queries, grid.receiver, d_query.flatten(0, 2))
            add_rows(grads.keys, grid.sender, d_key.flatten(0, 2))
            add_rows(grads.values, grid.sender, d_value.flatten(0, 2))
        return None, *grads, None


Shape = tuple[int, int, int]


class _Grads(NamedTuple):
    pairs: Tensor
    weight: Tensor
    bias: Tensor
    queries: Tensor
    keys: Tensor
    values: Tensor

    @classmethod
    def like(cls, pairs: Tensor, *others: Tensor) -> _Grads:
        return cls(torch.empty_like(pairs), *map(torch.zeros_like, others))


class _Given(NamedTuple):
    """Gradients of the results, and what they say of the shares, at each receiver of a grid."""

    mixed: Tensor
    pooled: Tensor
    common: Tensor

    def of(self, piece: GridPiece) -> _Given:
        return _Given(*(tensor[piece.received] for tensor in self))


class _Constants(NamedTuple):
    """The maps, and ``ones[c, h]``: one over the root of the size where channel c is head h's."""

    weight: Tensor
    bias: Tensor
    ones: Tensor
    heads: int

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor, heads: int) -> _Constants:
        return cls(weight, bias, _head_sums(weight, heads), heads)


def _head_sums(weight: Tensor, heads: int) -> Tensor:
    """A matrix that sums the channels of each head, divided by the root of the size."""
    width = len(weight) // 3
    eye = torch.eye(heads, dtype=weight.dtype, device=weight.device)
    return eye.repeat_interleave(width // heads, dim=0) / math.sqrt(width)


def _logits(
    layout: PairLayout, pairs: Tensor, weight: Tensor, queries: Tensor, keys: Tensor, heads: int
) -> Float[Tensor, "pairs heads"]:
    width = queries.shape[1]
    logits = pairs.new_empty(len(pairs), heads)
    ones = _head_sums(weight, heads)
    to_query, to_key = weight[:width].T, weight[width : 2 * width].T
    for grid in layout.grids:
        query, key = grid.at_receivers(queries), grid.at_senders(keys)
        for piece in grid.pieces():
            states, shape = pairs[piece.pairs], _shape(grid, piece)
            asked = torch.mm(states, to_query)
            asked.view(*shape, width).add_(query[piece.lead, piece.rows])
            offered = torch.mm(states, to_key)
            offered.view(*shape, width).add_(key[piece.lead])
            torch.mm(asked.mul_(offered), ones, out=logits[piece.pairs])
    return logits


def _softmax(layout: PairLayout, logits: Tensor) -> Float[Tensor, "pairs heads"]:
    """Shares of each receiver's pairs in all grids together; overwrites the logits."""
    views = [grid.of_pairs(logits) for grid in layout.grids]
    most = layout.gather(layout.largest(torch.cat([v.amax(2).flatten(0, 1) for v in views])))
    sums = []
    for grid, view in zip(layout.grids, views, strict=True):
        view.sub_(most[grid.received].view(grid.lead, grid.receivers, 1, -1)).exp_()
        sums.append(view.sum(2).flatten(0, 1))
    total = layout.gather(layout.add_up(torch.cat(sums)))
    for grid, view in zip(layout.grids, views, strict=True):
        view.div_(total[grid.received].view(grid.lead, grid.receivers, 1, -1))
    return logits


def _received(
    layout: PairLayout,
    pairs: Tensor,
    weight: Tensor,
    bias: Tensor,
    values: Tensor,
    shares: Tensor,
) -> tuple[Tensor, Tensor]:
    """The weighted sums of values and of pair states at each receiver of each grid."""
    width, heads = values.shape[1], shares.shape[1]
    mixed = values.new_empty(layout.received_count, heads, width // heads)
    pooled = values.new_empty(layout.received_count, heads, pairs.shape[1])
    to_factor = weight[2 * width :].T
    for grid in layout.grids:
        value = grid.at_senders(values)
        for piece in grid.pieces():
            states, shape = pairs[piece.pairs], _shape(grid, piece)
            factor = torch.addmm(bias, states, to_factor)
            factor.view(*shape, width).mul_(value[piece.lead])
            rows = (shape[0] * shape[1], shape[2], -1)
            share = shares[piece.pairs].view(rows).transpose(1, 2)
            # every head's shares on all channels, of which the head's own are kept: a matrix
            # product is faster than the sum of a broadcast product
            crossed = torch.bmm(share, factor.view(rows)).view(rows[0], heads, heads, -1)
            mixed[piece.received] = crossed.diagonal(dim1=1, dim2=2).transpose(1, 2)
            torch.bmm(share, states.view(rows), out=pooled[piece.received])
    return mixed.flatten(1), pooled.flatten(1)


def _backward(
    constant: _Constants,
    states: Tensor,
    shares: Tensor,
    ends: tuple[Tensor, Tensor, Tensor],
    given: _Given,
    shape: Shape,
    d_states: Tensor,
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """The gradients of a piece's projections and ends; writes that of states without them."""
    weight, bias, ones, heads = constant
    width = len(bias)
    query, key, value = ends
    rows = (shape[0] * shape[1], shape[2], -1)
    projected = torch.mm(states, weight.T).view(*shape, 3 * width)
    asked, offered, factor = projected.split(width, -1)
    asked.add_(query)
    offered.add_(key)
    factor.add_(bias)
    # [rows, a, heads]: the gradient of the mixed values, each channel in its head's column
    spread = given.mixed.unsqueeze(-1) * (ones != 0)
    d_pooled = given.pooled.view(len(spread), heads, -1)
    share = shares.view(rows)
    moved = (factor * value).view(rows)
    d_share = torch.baddbmm(-given.common.unsqueeze(1), moved, spread)
    d_share.baddbmm_(states.view(rows), d_pooled.transpose(1, 2))
    torch.bmm(share, d_pooled, out=d_states.view(rows))
    d_logit = torch.mm(d_share.mul_(share).view(-1, heads), ones.T).view(*shape, width)
    d_moved = torch.bmm(share, spread.transpose(1, 2), out=moved).view(*shape, width)
    d_projected = torch.empty_like(projected)
    d_asked, d_offered, d_factor = d_projected.split(width, -1)
    torch.mul(d_logit, offered, out=d_asked)
    torch.mul(d_logit, asked, out=d_offered)
    torch.mul(d_moved, value, out=d_factor)
    d_value = d_moved.mul_(factor).sum(1, keepdim=True)
    d_ends = (d_asked.sum(2, keepdim=True), d_offered.sum(1, keepdim=True), d_value)
    return d_projected.view(-1, 3 * width), d_ends


def _ends(
    grid: Grid, queries: Tensor, keys: Tensor, values: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    return grid.at_receivers(queries), grid.at_senders(keys), grid.at_senders(values)


def _shape(grid: Grid, piece: GridPiece) -> Shape:
    lead, rows = piece.lead, piece.rows
    return lead.stop - lead.start, rows.stop - rows.start, grid.senders
