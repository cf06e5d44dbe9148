"""The update of the states of pairs, in pieces that fit the processor's cache."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from weightspace.nn.keeping import Kept
from weightspace.nn.pair_layout import Grid, GridPiece, PairLayout, add_rows


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
        kept = [Kept.draw(*pairs.shape, rate, pairs.device) for _ in range(2)]
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
            *(self.first.weight, self.first.bias, self.second.weight, self.second.bias),
            *(self.last_norm.weight, self.last_norm.bias),
        )
        return result


class _Maps(NamedTuple):
    pair: Tensor
    out: Tensor
    out_bias: Tensor
    norm: Tensor
    norm_bias: Tensor
    first: Tensor
    first_bias: Tensor
    second: Tensor
    second_bias: Tensor
    last_norm: Tensor
    last_norm_bias: Tensor


class _Steps(NamedTuple):
    """What the backward pass of a piece needs."""

    both: Tensor
    lifted: Tensor
    active: Tensor
    norm: tuple[Tensor, Tensor, Tensor, Tensor]
    hidden: Tensor
    hidden_active: Tensor
    last_norm: tuple[Tensor, Tensor, Tensor, Tensor]


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
        maps = _Maps(*weights)
        result = torch.empty_like(pairs)
        for grid in layout.grids:
            ends = grid.at_receivers(receivers), grid.at_senders(senders)
            for piece in grid.pieces():
                steps = _steps(layout, grid, piece, kept, eps, pairs, ends, maps)
                result[piece.pairs] = steps.last_norm[1]
        ctx.save_for_backward(pairs, receivers, senders, *weights)
        ctx.others = layout, kept, eps
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        pairs, receivers, senders, *weights = ctx.saved_tensors
        layout, kept, eps = ctx.others
        maps, width = _Maps(*weights), pairs.shape[1]
        d_pairs, d_receivers, d_senders = map(torch.zeros_like, (pairs, receivers, senders))
        d_maps = _Maps(*map(torch.zeros_like, weights))
        for grid in layout.grids:
            ends = grid.at_receivers(receivers), grid.at_senders(senders)
            d_receiver, d_sender = map(torch.zeros_like, ends)
            for piece in grid.pieces():
                steps = _steps(layout, grid, piece, kept, eps, pairs, ends, maps)
                d_own, d_lifted = _backward(steps, grad[piece.pairs], piece, kept, maps, d_maps)
                d_both = torch.mm(d_lifted, maps.pair)
                d_maps.pair.addmm_(d_lifted.T, steps.both)
                shaped = d_lifted.view(*_shape(grid, piece), -1)
                d_receiver[piece.lead, piece.rows] = shaped.sum(2, keepdim=True)
                d_sender[piece.lead] += shaped.sum(1, keepdim=True)
                d_pairs[piece.pairs] += d_own.add_(d_both[:, :width])
                against = d_both[:, width:].view(*_shape(grid, piece), width)
                layout.reversed_piece(grid, piece, d_pairs).add_(against)
            add_rows(d_receivers, grid.receiver, d_receiver.flatten(0, 2))
            add_rows(d_senders, grid.sender, d_sender.flatten(0, 2))
        return None, None, None, d_pairs, d_receivers, d_senders, *d_maps


def _steps(
    layout: PairLayout,
    grid: Grid,
    piece: GridPiece,
    kept: list[Kept | None],
    eps: tuple[float, float],
    pairs: Tensor,
    ends: tuple[Tensor, Tensor],
    maps: _Maps,
) -> _Steps:
    states, shape = pairs[piece.pairs], _shape(grid, piece)
    width = states.shape[1]
    both = states.new_empty(len(states), 2 * width)
    both[:, :width] = states
    both.view(*shape, -1)[..., width:] = layout.reversed_piece(grid, piece, pairs)
    lifted = torch.mm(both, maps.pair.T)
    lifted.view(*shape, -1).add_(ends[0][piece.lead, piece.rows]).add_(ends[1][piece.lead])
    active = F.gelu(lifted)
    change = torch.addmm(maps.out_bias, active, maps.out.T)
    norm = _normed(change, states, kept[0], piece, maps.norm, maps.norm_bias, eps[0])
    hidden = torch.addmm(maps.first_bias, norm[1], maps.first.T)
    hidden_active = F.gelu(hidden)
    change = torch.addmm(maps.second_bias, hidden_active, maps.second.T)
    last = _normed(change, norm[1], kept[1], piece, maps.last_norm, maps.last_norm_bias, eps[1])
    return _Steps(both, lifted, active, norm, hidden, hidden_active, last)


def _normed(
    change: Tensor,
    states: Tensor,
    kept: Kept | None,
    piece: GridPiece,
    weight: Tensor,
    bias: Tensor,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Drop from a change, add the states and normalise: the sum, the result, mean and rate."""
    if kept is not None:
        kept.apply_(change, piece.pairs)
    total = change.add_(states)
    return total, *torch.native_layer_norm(total, [total.shape[1]], weight, bias, eps)


def _backward(
    steps: _Steps,
    grad: Tensor,
    piece: GridPiece,
    kept: list[Kept | None],
    maps: _Maps,
    d_maps: _Maps,
) -> tuple[Tensor, Tensor]:
    """The gradient of a piece's states without the first map, and that of the map's result."""
    d_total = _norm_backward(grad, steps.last_norm, maps[9:11], d_maps[9:11])
    d_change = d_total.clone() if kept[1] is not None else d_total
    if kept[1] is not None:
        kept[1].apply_(d_change, piece.pairs)
    d_active = torch.mm(d_change, maps.second)
    d_maps.second.addmm_(d_change.T, steps.hidden_active)
    d_maps.second_bias.add_(d_change.sum(0))
    d_hidden = torch.ops.aten.gelu_backward(d_active, steps.hidden)
    d_maps.first.addmm_(d_hidden.T, steps.norm[1])
    d_maps.first_bias.add_(d_hidden.sum(0))
    d_between = d_total.addmm_(d_hidden, maps.first)
    d_own = _norm_backward(d_between, steps.norm, maps[3:5], d_maps[3:5])
    d_change = d_own.clone() if kept[0] is not None else d_own
    if kept[0] is not None:
        kept[0].apply_(d_change, piece.pairs)
    d_active = torch.mm(d_change, maps.out)
    d_maps.out.addmm_(d_change.T, steps.active)
    d_maps.out_bias.add_(d_change.sum(0))
    return d_own, torch.ops.aten.gelu_backward(d_active, steps.lifted)


def _norm_backward(
    grad: Tensor,
    norm: tuple[Tensor, Tensor, Tensor, Tensor],
    maps: tuple[Tensor, ...],
    d_maps: tuple[Tensor, ...],
) -> Tensor:
    total, _, mean, rate = norm
    d_total, d_weight, d_bias = torch.ops.aten.native_layer_norm_backward(
        grad, total, [total.shape[1]], mean, rate, *maps, [True, True, True]
    )
    d_maps[0].add_(d_weight)
    d_maps[1].add_(d_bias)
    result: Tensor = d_total
    return result


def _shape(grid: Grid, piece: GridPiece) -> tuple[int, int, int]:
    lead, rows = piece.lead, piece.rows
    return lead.stop - lead.start, rows.stop - rows.start, grid.senders
