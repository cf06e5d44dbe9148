"""Attention in which every pair of neurons has a state of its own.

The plain formulas write four projections of all pairs, some gigabytes for a batch of small
networks. Here forward and backward are written out over pieces of a few thousand pairs, and
what the backward pass needs is computed again; only the shares of attention are kept.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function

from weightspace.nn.attention_piece import (
    AttentionMaps,
    Given,
    SenderSums,
    piece_backward,
    piece_logits,
    piece_received,
)
from weightspace.nn.first_derivative import first_derivative
from weightspace.nn.pair_layout import PairLayout, add_rows


class NodeProjections(NamedTuple):
    """What nodes bring to attention.

    Args:
        queries: of the nodes.
        keys: of all that can be attended to, nodes and pools.
        values: the same.
    """

    queries: Float[Tensor, "nodes a"]
    keys: Float[Tensor, "senders a"]
    values: Float[Tensor, "senders a"]


class PairMaps(NamedTuple):
    """The linear maps of pair states to what they add to queries and keys and multiply values by.

    Args:
        query: ``Q``.
        key: ``K``.
        factor: ``S``.
        bias: ``s``, of the factors.
    """

    query: Float[Tensor, "a d"]
    key: Float[Tensor, "a d"]
    factor: Float[Tensor, "a d"]
    bias: Float[Tensor, " a"]


def relational_attention(
    layout: PairLayout,
    pairs: Float[Tensor, "pairs d"],
    maps: PairMaps,
    nodes: NodeProjections,
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
        nodes: ``q``, ``k`` and ``v``.
        heads: into which channels are divided evenly.
    """
    scale = 1 / math.sqrt(nodes.queries.shape[1])
    found: tuple[Tensor, Tensor] = _Attend.apply(  # type: ignore[no-untyped-call]
        layout,
        heads,
        pairs,
        torch.cat([maps.query * scale, maps.key, maps.factor]),
        maps.bias,
        nodes.queries * scale,
        nodes.keys,
        nodes.values,
    )
    return found


class _Attend(Function):
    @staticmethod
    def forward(  # noqa: PLR0917 (autograd passes by position)
        ctx: Any,
        layout: PairLayout,
        heads: int,
        pairs: Tensor,
        weight: Tensor,
        bias: Tensor,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
    ) -> tuple[Tensor, Tensor]:
        maps = AttentionMaps.of(weight, bias, heads)
        logits = pairs.new_empty(len(pairs), heads)
        for grid in layout.grids:
            query, key = grid.at_receivers(queries), grid.at_senders(keys)
            for piece in grid.pieces():
                ends = query[piece.lead, piece.rows], key[piece.lead]
                logits[piece.pairs] = piece_logits(maps, pairs[piece.pairs], ends)
        shares = _softmax(layout, logits)
        mixed = pairs.new_empty(layout.received_count, values.shape[1])
        pooled = pairs.new_empty(layout.received_count, heads * pairs.shape[1])
        for grid in layout.grids:
            value = grid.at_senders(values)
            for piece in grid.pieces():
                found = piece_received(
                    maps, pairs[piece.pairs], shares[piece.pairs], value[piece.lead]
                )
                mixed[piece.received], pooled[piece.received] = found
        mixed, pooled = layout.add_up(mixed), layout.add_up(pooled)
        ctx.save_for_backward(pairs, weight, bias, queries, keys, values, shares, mixed, pooled)
        ctx.layout = layout
        return mixed, pooled.view(-1, heads, pairs.shape[1])

    @staticmethod
    @first_derivative
    def backward(ctx: Any, d_mixed: Tensor, d_pooled: Tensor) -> tuple[Tensor | None, ...]:
        pairs, weight, bias, queries, keys, values, shares, mixed, pooled = ctx.saved_tensors
        layout: PairLayout = ctx.layout
        heads = shares.shape[1]
        # a change of the shares acts relative to their mean change, which the result tells
        common = (d_mixed * mixed).reshape(len(mixed), heads, -1).sum(-1)
        common += (d_pooled * pooled.view(d_pooled.shape)).sum(-1)
        given = Given(*map(layout.gather, (d_mixed, d_pooled.flatten(1), common)))
        maps = AttentionMaps.of(weight, bias, heads)
        d_pairs = torch.empty_like(pairs, memory_format=torch.contiguous_format)
        d_weight, d_bias = torch.zeros_like(maps.weight), torch.zeros_like(bias)
        d_queries, d_keys, d_values = map(torch.zeros_like, (queries, keys, values))
        for grid in layout.grids:
            query, key, value = (
                grid.at_receivers(queries),
                grid.at_senders(keys),
                grid.at_senders(values),
            )
            d_query, sums = torch.empty_like(query), SenderSums.like(key)
            for piece in grid.pieces():
                ends = query[piece.lead, piece.rows], key[piece.lead], value[piece.lead]
                states, d_states = pairs[piece.pairs], d_pairs[piece.pairs]
                d_projected, found = piece_backward(
                    maps, states, shares[piece.pairs], ends, given.of(piece), out=d_states
                )
                d_states.addmm_(d_projected, maps.swapped)
                d_weight.addmm_(states.T, d_projected)
                d_query[piece.lead, piece.rows] = found.query
                sums.add(piece.lead, found)
            d_value = sums.value.add_(sums.moved * bias)
            d_bias += (sums.moved * value).sum((0, 1, 2))
            add_rows(d_queries, grid.receiver, d_query.flatten(0, 2))
            add_rows(d_keys, grid.sender, sums.key.flatten(0, 2))
            add_rows(d_values, grid.sender, d_value.flatten(0, 2))
        return None, None, d_pairs, maps.unswap(d_weight.T), d_bias, d_queries, d_keys, d_values


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
