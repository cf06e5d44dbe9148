"""The update of pairs in PyTorch, in pieces that fit the processor's cache."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from weightspace.nn.pair_layout import GridPiece, add_rows
from weightspace.nn.update_passes import UpdateInputs, UpdateMaps, UpdatePasses, UpdateSetting
from weightspace.nn.update_piece import (
    MLPMaps,
    NormMaps,
    Residual,
    ResidualGrads,
    Step,
    first_step,
    last_total,
    lift_both,
)


class PlainUpdate(UpdatePasses):
    """The passes without compiled code, for every type and device."""

    def forward(
        self, setting: UpdateSetting, inputs: UpdateInputs, maps: UpdateMaps
    ) -> tuple[Tensor, Tensor]:
        """See :class:`UpdatePasses`; keeps means and rates of the last norm."""
        layout, (pairs, receivers, senders) = setting.layout, inputs
        steps = _Steps(maps, setting)
        result = torch.empty_like(pairs)
        statistics = pairs.new_empty(2, len(pairs), 1)
        for grid in layout.grids:
            ends = grid.at_receivers(receivers), grid.at_senders(senders)
            for piece in grid.pieces():
                one, two = steps.of(piece)
                states, reverse = pairs[piece.pairs], layout.reversed_piece(grid, piece, pairs)
                at_ends = ends[0][piece.lead, piece.rows], ends[1][piece.lead]
                both, lifted = lift_both(states, reverse, one.maps.first, at_ends)
                between, _ = first_step(one, states, both, lifted)
                total = last_total(two, maps.first_bias, between)[2]
                result[piece.pairs], mean, rate = two.normed(total)
                statistics[0, piece.pairs], statistics[1, piece.pairs] = mean, rate
        return result, statistics

    def backward(
        self,
        setting: UpdateSetting,
        inputs: UpdateInputs,
        maps: UpdateMaps,
        *,
        stored: Tensor,
        grad: Tensor,
    ) -> tuple[UpdateInputs, UpdateMaps]:
        """See :class:`UpdatePasses`."""
        layout, (pairs, receivers, senders) = setting.layout, inputs
        steps, width = _Steps(maps, setting), pairs.shape[1]
        d_pairs, d_receivers, d_senders = map(torch.zeros_like, inputs)
        grads = _Grads.like(maps)
        for grid in layout.grids:
            ends = grid.at_receivers(receivers), grid.at_senders(senders)
            d_receiver, d_sender = map(torch.zeros_like, ends)
            for piece in grid.pieces():
                one, two = steps.of(piece)
                states, reverse = pairs[piece.pairs], layout.reversed_piece(grid, piece, pairs)
                at_ends = ends[0][piece.lead, piece.rows], ends[1][piece.lead]
                both, lifted = lift_both(states, reverse, one.maps.first, at_ends)
                between, step = first_step(one, states, both, lifted)
                found = last_total(two, maps.first_bias, between)
                last = Step(between, *found, *stored[:, piece.pairs])
                d_between, d_hidden = two.backward(grad[piece.pairs], last, grads.two)
                grads.first_bias.add_(d_hidden.sum(0))
                d_between.addmm_(d_hidden, two.maps.first)
                d_own, d_lifted = one.backward(d_between, step, grads.one)
                d_both = torch.mm(d_lifted, one.maps.first)
                shaped = d_lifted.view(*reverse.shape[:3], -1)
                d_receiver[piece.lead, piece.rows] = shaped.sum(2, keepdim=True)
                d_sender[piece.lead] += shaped.sum(1, keepdim=True)
                d_pairs[piece.pairs] += d_own.add_(d_both[:, :width])
                against = d_both[:, width:].view(reverse.shape)
                layout.reversed_piece(grid, piece, d_pairs).add_(against)
            add_rows(d_receivers, grid.receiver, d_receiver.flatten(0, 2))
            add_rows(d_senders, grid.sender, d_sender.flatten(0, 2))
        return UpdateInputs(d_pairs, d_receivers, d_senders), grads.in_order


class _Steps(NamedTuple):
    maps: UpdateMaps
    setting: UpdateSetting

    def of(self, piece: GridPiece) -> tuple[Residual, Residual]:
        """Both residual steps of a piece."""
        (kept, last_kept), (eps, last_eps) = self.setting.kept, self.setting.eps
        one, two = MLPMaps(*self.maps[:3]), MLPMaps(*self.maps[5:8])
        norm, last_norm = NormMaps(*self.maps[3:5]), NormMaps(*self.maps[8:10])
        return (
            Residual(one, norm, eps, kept, piece.pairs),
            Residual(two, last_norm, last_eps, last_kept, piece.pairs),
        )


class _Grads(NamedTuple):
    one: ResidualGrads
    two: ResidualGrads
    first_bias: Tensor

    @classmethod
    def like(cls, maps: UpdateMaps) -> _Grads:
        """Zeros."""
        return cls(
            ResidualGrads.like(MLPMaps(*maps[:3]), NormMaps(*maps[3:5])),
            ResidualGrads.like(MLPMaps(*maps[5:8]), NormMaps(*maps[8:10])),
            torch.zeros_like(maps.first_bias),
        )

    @property
    def in_order(self) -> UpdateMaps:
        """The gradients in the order of the maps."""
        one, two = self.one, self.two
        return UpdateMaps(*one.maps, *one.norm, *two.maps, *two.norm, self.first_bias)
