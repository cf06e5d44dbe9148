"""The grids of pairs as compiled passes take them, see ``pairs.h``."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from weightspace.nn.pair_layout import Grid, PairLayout

WIDTHS = (16, 32, 64, 128)
"""Channels that products are unrolled for over registers."""
WORTH_THREADS = 512
"""Pairs of a grid from which on starting threads takes less time than it spares."""


class GridShape(ctypes.Structure):
    """A grid's shape and place, and how threads share it."""

    _fields_ = [
        (name, ctypes.c_long)
        for name in ("lead", "splits", "receivers", "senders", "first", "reverse", "threads")
    ]

    @classmethod
    def of(cls, layout: PairLayout, grid: Grid) -> GridShape:
        """The shape of a grid of a layout."""
        size, threads = grid.receivers * grid.senders, torch.get_num_threads()
        if grid.lead * size < WORTH_THREADS:
            threads = 1
        # Few blocks are split where threads would be idle.
        splits = max(1, min(grid.receivers, -(-threads // grid.lead)))
        reverse = layout.grids[grid.reverse].pairs.start
        shape = grid.lead, splits, grid.receivers, grid.senders
        return cls(*shape, grid.pairs.start, reverse, threads)

    def sums(self, grid: Grid, like: Tensor) -> tuple[Tensor, Tensor]:
        """Zeros for what is summed at receivers and, for every unit, at senders."""
        return (
            like.new_zeros(grid.lead * grid.receivers, like.shape[1]),
            like.new_zeros(self.lead, self.splits, grid.senders, like.shape[1]),
        )
