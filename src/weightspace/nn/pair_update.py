"""The update of the states of pairs, in pieces that fit the processor's cache."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import Function

from weightspace.nn.first_derivative import first_derivative
from weightspace.nn.keeping import Kept
from weightspace.nn.pair_layout import GridPiece, PairLayout, add_rows
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


class PairUpdate(nn.Module):
    """A pair's state from its own, its reverse's and its ends'.

    Kofinas et al. 2024, appendix on the relational transformer:
    ``e_ij <- LN(e_ij + Linear(GELU(Linear[e_ij, e_ji] + Linear x_i + Linear x_j)))``, then
    ``LN(e_ij + MLP(e_ij))`` with one hidden layer; dropout after both last linear maps.

    Args:
        nodes: channels of the node states.
        pairs: channels of the pair states.
        hidden: channels of both hidden layers.
        dropout: its rate.
    """

    def __init__(self, *, nodes: int, pairs: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.pair = nn.Linear(2 * pairs, hidden)
        self.receiver = nn.Linear(nodes, hidden, bias=False)
        self.sender = nn.Linear(nodes, hidden, bias=False)
        self.out = nn.Linear(hidden, pairs)
        self.norm = nn.LayerNorm(pairs)
        self.first, self.second = nn.Linear(pairs, hidden), nn.Linear(hidden, pairs)
        self.last_norm = nn.LayerNorm(pairs)
        self.dropout = dropout

    def forward(
        self,
        layout: PairLayout,
        nodes: Float[Tensor, "nodes n"],
        pairs: Float[Tensor, "pairs d"],
    ) -> Float[Tensor, "pairs d"]:
        """Update the pairs.

        Args:
            layout: the pairs.
            nodes: the updated node states.
            pairs: the states of the pairs.
        """
        rate = self.dropout if self.training else 0.0
        kept = [Kept.draw(pairs.shape[0], pairs.shape[1], rate, pairs.device) for _ in range(2)]
        receivers = F.linear(nodes, self.receiver.weight, self.pair.bias)
        result: Tensor = _Update.apply(  # type: ignore[no-untyped-call]
            layout,
            kept,
            (self.norm.eps, self.last_norm.eps),
            pairs,
            receivers,
            layout.senders(self.sender(nodes)),
            *(self.pair.weight, self.out.weight, self.out.bias),
            *(self.norm.weight, self.norm.bias),
            *(self.first.weight, self.second.weight, self.second.bias),
            *(self.last_norm.weight, self.last_norm.bias, self.first.bias),
        )
        return result


class _Update(Function):
    @staticmethod
    def forward(  # noqa: PLR0917 (autograd passes by position)
        ctx: Any,
        layout: PairLayout,
        kept: list[Kept | None],
        eps: tuple[float, float],
        pairs: Tensor,
        receivers: Tensor,
        senders: Tensor,
        *weights: Tensor,
    ) -> Tensor:
        steps = _Steps(_Maps(*weights), kept, eps)
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
                total = last_total(two, steps.maps.first_bias, between)[2]
                result[piece.pairs], mean, rate = two.normed(total)
                statistics[0, piece.pairs], statistics[1, piece.pairs] = mean, rate
        ctx.save_for_backward(pairs, receivers, senders, statistics, *weights)
        ctx.others = layout, kept, eps
        return result

    @staticmethod
    @first_derivative
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        pairs, receivers, senders, statistics, *weights = ctx.saved_tensors
        layout, kept, eps = ctx.others
        steps, width = _Steps(_Maps(*weights), kept, eps), pairs.shape[1]
        d_pairs, d_receivers, d_senders = map(torch.zeros_like, (pairs, receivers, senders))
        grads = _Grads.like(steps.maps)
        for grid in layout.grids:
            ends = grid.at_receivers(receivers), grid.at_senders(senders)
            d_receiver, d_sender = map(torch.zeros_like, ends)
            for piece in grid.pieces():
                one, two = steps.of(piece)
                states, reverse = pairs[piece.pairs], layout.reversed_piece(grid, piece, pairs)
                at_ends = ends[0][piece.lead, piece.rows], ends[1][piece.lead]
                both, lifted = lift_both(states, reverse, one.maps.first, at_ends)
                between, step = first_step(one, states, both, lifted)
                found = last_total(two, steps.maps.first_bias, between)
                last = Step(between, *found, *statistics[:, piece.pairs])
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
        return None, None, None, d_pairs, d_receivers, d_senders, *grads.in_order


class _Maps(NamedTuple):
    """Parameters in the order that the function is given."""

    pair: Tensor
    out: Tensor
    out_bias: Tensor
    norm: Tensor
    norm_bias: Tensor
    first: Tensor
    second: Tensor
    second_bias: Tensor
    last_norm: Tensor
    last_norm_bias: Tensor
    first_bias: Tensor


class _Steps(NamedTuple):
    maps: _Maps
    kept: list[Kept | None]
    eps: tuple[float, float]

    def of(self, piece: GridPiece) -> tuple[Residual, Residual]:
        """Both residual steps of a piece."""
        return (
            Residual(
                MLPMaps(*self.maps[:3]),
                NormMaps(*self.maps[3:5]),
                *(self.eps[0], self.kept[0], piece.pairs),
            ),
            Residual(
                MLPMaps(*self.maps[5:8]),
                NormMaps(*self.maps[8:10]),
                *(self.eps[1], self.kept[1], piece.pairs),
            ),
        )


class _Grads(NamedTuple):
    one: ResidualGrads
    two: ResidualGrads
    first_bias: Tensor

    @classmethod
    def like(cls, maps: _Maps) -> _Grads:
        """Zeros."""
        return cls(
            ResidualGrads.like(MLPMaps(*maps[:3]), NormMaps(*maps[3:5])),
            ResidualGrads.like(MLPMaps(*maps[5:8]), NormMaps(*maps[8:10])),
            torch.zeros_like(maps.first_bias),
        )

    @property
    def in_order(self) -> tuple[Tensor, ...]:
        """The gradients in the order of :class:`_Maps`."""
        one, two = self.one, self.two
        return (*one.maps, *one.norm, *two.maps, *two.norm, self.first_bias)
