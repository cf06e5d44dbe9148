"""Relational attention in PyTorch, in pieces that fit the processor's cache."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.nn.attention_passes import Attended, AttentionInputs, AttentionPasses, Given
from weightspace.nn.attention_piece import (
    AttentionMaps,
    SenderSums,
    piece_backward,
    piece_logits,
    piece_received,
)
from weightspace.nn.pair_layout import PairLayout, add_rows


class PlainAttention(AttentionPasses):
    """The passes without compiled code, for every type and device."""

    def forward(self, layout: PairLayout, inputs: AttentionInputs, heads: int) -> Attended:
        """See :class:`AttentionPasses`."""
        maps = AttentionMaps.of(inputs.weight, inputs.bias, heads)
        shares = _softmax(layout, _logits(layout, inputs, maps, heads))
        mixed, pooled = map(layout.add_up, _received(layout, inputs, maps, shares))
        return Attended(mixed, pooled, shares)

    def backward(
        self, layout: PairLayout, inputs: AttentionInputs, shares: Tensor, given: Given
    ) -> AttentionInputs:
        """See :class:`AttentionPasses`."""
        pairs, weight, bias, queries, keys, values = inputs
        maps = AttentionMaps.of(weight, bias, shares.shape[1])
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
                at_piece = given.of(piece.received)
                d_projected, found = piece_backward(
                    maps, states, shares[piece.pairs], ends, at_piece, out=d_states
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
        d_weight = maps.unswap(d_weight.T)
        return AttentionInputs(d_pairs, d_weight, d_bias, d_queries, d_keys, d_values)


def _logits(
    layout: PairLayout, inputs: AttentionInputs, maps: AttentionMaps, heads: int
) -> Float[Tensor, "pairs heads"]:
    """Products of queries and keys."""
    pairs = inputs.pairs
    logits = pairs.new_empty(len(pairs), heads)
    for grid in layout.grids:
        query, key = grid.at_receivers(inputs.queries), grid.at_senders(inputs.keys)
        for piece in grid.pieces():
            ends = query[piece.lead, piece.rows], key[piece.lead]
            logits[piece.pairs] = piece_logits(maps, pairs[piece.pairs], ends)
    return logits


def _received(
    layout: PairLayout, inputs: AttentionInputs, maps: AttentionMaps, shares: Tensor
) -> tuple[Float[Tensor, "received a"], Float[Tensor, "received heads_d"]]:
    """The weighted sums of values and of pair states that each grid's receivers get."""
    pairs, heads = inputs.pairs, shares.shape[1]
    mixed = pairs.new_empty(layout.received_count, inputs.values.shape[1])
    pooled = pairs.new_empty(layout.received_count, heads * pairs.shape[1])
    for grid in layout.grids:
        value = grid.at_senders(inputs.values)
        for piece in grid.pieces():
            found = piece_received(maps, pairs[piece.pairs], shares[piece.pairs], value[piece.lead])
            mixed[piece.received], pooled[piece.received] = found
    return mixed, pooled


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
