"""The compiled passes of relational attention, see ``attention_kernels.cpp``."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

import torch
from torch import Tensor

from weightspace.nn.attention_passes import AttentionInputs, AttentionPasses, Given
from weightspace.nn.attention_piece import AttentionMaps
from weightspace.nn.compiling import compiled_library
from weightspace.nn.grid_shape import WIDTHS, GridShape, Pointers, call
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

    def logits(self, layout: PairLayout, inputs: AttentionInputs, heads: int) -> Tensor:
        """See :class:`AttentionPasses`."""
        pairs, size = inputs.pairs.contiguous(), len(inputs.bias)
        weight = inputs.weight[: 2 * size].T.contiguous()
        logits = pairs.new_empty(len(pairs), heads)
        for grid in layout.grids:
            shape, nodes = GridShape.of(layout, grid), _nodes(grid, inputs)
            self._call("attention_logits", shape, weight, Pointers.of(*nodes), pairs, logits)
        return logits

    def received(
        self, layout: PairLayout, inputs: AttentionInputs, shares: Tensor
    ) -> tuple[Tensor, Tensor]:
        """See :class:`AttentionPasses`."""
        pairs, bias = inputs.pairs.contiguous(), inputs.bias.contiguous()
        weight = inputs.weight[2 * len(bias) :].T.contiguous()
        mixed = pairs.new_empty(layout.received_count, len(bias))
        pooled = pairs.new_empty(layout.received_count, shares.shape[1] * pairs.shape[1])
        for grid in layout.grids:
            shape, nodes = GridShape.of(layout, grid), _nodes(grid, inputs)
            given = weight, bias, Pointers.of(*nodes), pairs, shares
            written = mixed[grid.received], pooled[grid.received]
            self._call("attention_received", shape, *given, *written)
        return mixed, pooled

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
