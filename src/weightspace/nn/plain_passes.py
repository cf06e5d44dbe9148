"""The passes of NG-GNN over all edges in PyTorch, in pieces that fit the cache."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from weightspace.nn.edge_passes import EdgePasses, Four, LiftedEdges
from weightspace.nn.pieces import Buffers, Direction, Ends


class PlainPasses(EdgePasses):
    """The passes without compiled code, for every type and device."""

    def film(
        self,
        lifted: LiftedEdges,
    ) -> Four:
        """See :class:`EdgePasses`."""
        way, edges, weight, bias, ends = lifted
        width = edges.shape[-1]
        total, squares, least, most = (torch.empty_like(ends.of_receivers) for _ in range(4))
        buffers = Buffers(way, 2 * width, like=edges)
        for piece in buffers.pieces:
            modulation = buffers.rows(0, piece, 2 * width)
            torch.addmm(bias, edges[piece.rows], weight.T, out=modulation)
            pair, message = (way.dense(buffers.rows(i, piece, width)) for i in (1, 2))
            own = ends.piece(piece)
            _message(way.dense(modulation), own, pair, message)
            torch.sum(message, way.over, out=total[piece.lead])
            torch.amin(message, way.over, out=least[piece.lead])
            torch.amax(message, way.over, out=most[piece.lead])
            torch.sum(message.mul_(message), way.over, out=squares[piece.lead])
        return total, squares, least, most

    def film_backward(
        self,
        lifted: LiftedEdges,
        grads: list[Tensor],
        d_edges: Tensor,
    ) -> tuple[Tensor, Tensor, Ends]:
        """See :class:`EdgePasses`."""
        way, edges, weight, bias, ends = lifted
        width = edges.shape[-1]
        d_weight, d_bias, d_ends = torch.zeros_like(weight), torch.zeros_like(bias), ends.room()
        buffers = Buffers(way, 2 * width, like=edges)
        for piece in buffers.pieces:
            states, modulation = edges[piece.rows], buffers.rows(0, piece, 2 * width)
            torch.addmm(bias, states, weight.T, out=modulation)
            _film_backward(
                way,
                way.dense(modulation),
                ends.piece(piece),
                [grad[piece.lead].unsqueeze(way.over) for grad in grads],
                [way.dense(buffers.rows(i, piece, width)) for i in (1, 2, 3, 4)],
                d_ends.piece(piece),
            )
            torch.mm(modulation, weight, out=d_edges[piece.rows])
            d_weight.addmm_(modulation.T, states)
            d_bias += modulation.sum(0)
        return d_weight, d_bias, d_ends

    def silu(
        self,
        lifted: LiftedEdges,
        result: Tensor,
    ) -> None:
        """See :class:`EdgePasses`."""
        way, edges, weight, bias, ends = lifted
        for piece in way.pieces(edges.shape[-1]):
            rows, own = result[piece.rows], ends.piece(piece)
            torch.addmm(bias, edges[piece.rows], weight.T, out=rows)
            F.silu(way.dense(rows).add_(own.receiver).add_(own.sender), inplace=True)

    def silu_backward(
        self,
        lifted: LiftedEdges,
        grad: Tensor,
        d_edges: Tensor,
    ) -> tuple[Tensor, Ends]:
        """See :class:`EdgePasses`."""
        way, edges, weight, bias, ends = lifted
        width = edges.shape[-1]
        d_weight, d_ends = torch.zeros_like(weight), ends.room()
        buffers = Buffers(way, width, like=edges)
        for piece in buffers.pieces:
            states, rows = edges[piece.rows], buffers.rows(0, piece, width)
            own, d_own = ends.piece(piece), d_ends.piece(piece)
            torch.addmm(bias, states, weight.T, out=rows)
            values = way.dense(rows).add_(own.receiver).add_(own.sender)
            torch.ops.aten.silu_backward.grad_input(
                way.dense(grad[piece.rows]), values, grad_input=values
            )
            torch.sum(values, way.over, keepdim=True, out=d_own.receiver)
            torch.sum(values, 3 - way.over, keepdim=True, out=d_own.sender)
            torch.mm(rows, weight, out=d_edges[piece.rows])
            d_weight.addmm_(rows.T, states)
        return d_weight, d_ends


def _message(modulation: Tensor, ends: Ends, pair: Tensor, message: Tensor) -> None:
    scale, shift = modulation.chunk(2, -1)
    torch.add(ends.receiver, ends.sender, out=pair)
    torch.addcmul(shift, scale, pair, out=message)


def _film_backward(  # noqa: PLR0917
    way: Direction,
    modulation: Tensor,
    ends: Ends,
    grads: list[Tensor],
    buffers: list[Tensor],
    d_ends: Ends,
) -> None:
    """Write the gradients of scale and shift in their place, and those of the ends."""
    pair, message, mask, d_message = buffers
    d_total, d_squares, d_least, d_most = grads
    scale, shift = modulation.chunk(2, -1)
    _message(modulation, ends, pair, message)
    torch.addcmul(d_total, message, 2 * d_squares, out=d_message)
    over = way.over
    for extreme, grad in ((message.amin(over, True), d_least), (message.amax(over, True), d_most)):
        torch.eq(message, extreme, out=mask)
        d_message.addcmul_(mask, grad / mask.sum(over, keepdim=True))
    shift.copy_(d_message)
    d_pair = torch.mul(d_message, scale, out=message)
    torch.mul(d_message, pair, out=scale)
    torch.sum(d_pair, over, keepdim=True, out=d_ends.receiver)
    torch.sum(d_pair, 3 - over, keepdim=True, out=d_ends.sender)
