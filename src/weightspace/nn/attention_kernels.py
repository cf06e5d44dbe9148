"""The compiled passes of relational attention, see ``attention_kernels.cpp``."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.nn.attention_passes import Attended, AttentionInputs, AttentionPasses, Given
from weightspace.nn.attention_piece import AttentionMaps
from weightspace.nn.compiling import compiled_library
from weightspace.nn.grid_shape import WIDTHS, GridShape
from weightspace.nn.library_calls import Pointers, call
from weightspace.nn.pair_layout import Grid, PairLayout, add_rows

SOURCE = Path(__file__).with_name("attention_kernels.cpp")
HEADS = (1, 2, 4, 8, 16)
"""Numbers of heads whose sums have room in a vector."""


class AttentionKernels(AttentionPasses):
    """The passes for widths and heads.

    Args:
        library: compiled for them.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def forward(self, layout: PairLayout, inputs: AttentionInputs, heads: int) -> Attended:
        """See :class:`AttentionPasses`."""
        pairs = inputs.pairs.contiguous()
        shares, most = self._logits(layout, inputs, pairs, heads)
        mixed, pooled, total = self._received(layout, inputs, pairs, shares, most)
        rates = layout.gather(total.reciprocal())
        for grid in layout.grids:
            rate = rates[grid.received]
            grid.of_pairs(shares).mul_(rate.view(grid.lead, grid.receivers, 1, heads))
        for values in (mixed, pooled):
            values.view(len(total), heads, -1).div_(total.unsqueeze(2))
        return Attended(mixed, pooled, shares)

    def _logits(
        self, layout: PairLayout, inputs: AttentionInputs, pairs: Tensor, heads: int
    ) -> tuple[Float[Tensor, "pairs heads"], Float[Tensor, "received heads"]]:
        """Products of queries and keys, and the largest of all that each receiver has."""
        weight = inputs.weight[: 2 * len(inputs.bias)].T.contiguous()
        logits = pairs.new_empty(len(pairs), heads)
        most = pairs.new_empty(layout.received_count, heads)
        for grid in layout.grids:
            shape, ends = GridShape.of(layout, grid), _nodes(grid, inputs)
            given = weight, Pointers.of(*ends), pairs
            self._call("attention_logits", shape, *given, logits, most[grid.received])
        return logits, layout.gather(layout.largest(most))

    def _received(
        self,
        layout: PairLayout,
        inputs: AttentionInputs,
        pairs: Tensor,
        logits: Tensor,
        most: Tensor,
    ) -> list[Tensor]:
        """Sums of values, states and shares at each node; shares, unscaled, replace logits."""
        heads, bias = logits.shape[1], inputs.bias.contiguous()
        weight = inputs.weight[2 * len(bias) :].T.contiguous()
        widths = len(bias), heads * pairs.shape[1], heads
        sums = [pairs.new_empty(layout.received_count, width) for width in widths]
        for grid in layout.grids:
            shape, ends = GridShape.of(layout, grid), _nodes(grid, inputs)
            mixed, pooled, total, largest = (each[grid.received] for each in (*sums, most))
            given = weight, bias, Pointers.of(*ends), pairs, logits, largest
            self._call("attention_received", shape, *given, total, mixed, pooled)
        return [layout.add_up(each) for each in sums]

    def backward(
        self, layout: PairLayout, inputs: AttentionInputs, shares: Tensor, given: Given
    ) -> AttentionInputs:
        """See :class:`AttentionPasses`."""
        pairs, size = inputs.pairs.contiguous(), len(inputs.bias)
        weight, back = inputs.weight.T.contiguous(), AttentionMaps.unswap(inputs.weight)
        start = torch.cat([inputs.bias.new_zeros(2 * size), inputs.bias])
        maps, d_pairs = Pointers.of(weight, back, start), torch.empty_like(pairs)
        sums = pairs.new_zeros(torch.get_num_threads(), weight.numel() + size)
        d_queries, d_keys, d_values = map(torch.zeros_like, inputs[3:])
        for grid in layout.grids:
            shape, nodes = GridShape.of(layout, grid), _nodes(grid, inputs)
            received = [each.contiguous() for each in given.of(grid.received)]
            d_query, d_key = shape.sums(grid, inputs.queries)
            d_value = torch.zeros_like(d_key)
            added = Pointers.of(d_query, d_key, d_value, sums)
            read = maps, Pointers.of(*nodes), pairs, shares, Pointers.of(*received)
            self._call("attention_backward", shape, *read, added, d_pairs)
            add_rows(d_queries, grid.receiver, d_query)
            add_rows(d_keys, grid.sender, d_key.sum(1).flatten(0, 1))
            add_rows(d_values, grid.sender, d_value.sum(1).flatten(0, 1))
        d_back, d_bias = torch.split(sums.sum(0), [weight.numel(), size])
        d_weight = AttentionMaps.unswap(d_back.view(inputs.weight.shape))
        return AttentionInputs(d_pairs, d_weight, d_bias, d_queries, d_keys, d_values)

    def _call(self, name: str, *arguments: Tensor | ctypes.Structure) -> None:
        call(self._library, name, *arguments)


@functools.cache
def attention_kernels(pairs: int, size: int, heads: int) -> AttentionKernels | None:
    """The passes for channels of pairs and of queries; None where nothing fits or compiles."""
    if pairs not in WIDTHS or size not in WIDTHS or heads not in HEADS or size // heads % 16:
        return None
    library = compiled_library(SOURCE, PAIRS=pairs, SIZE=size, HEADS=heads)
    return None if library is None else AttentionKernels(library)


def _nodes(grid: Grid, inputs: AttentionInputs) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values at a grid's ends."""
    return (
        grid.at_receivers(inputs.queries).contiguous(),
        grid.at_senders(inputs.keys).contiguous(),
        grid.at_senders(inputs.values).contiguous(),
    )
