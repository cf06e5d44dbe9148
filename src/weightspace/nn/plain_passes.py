"""The passes of NG-GNN over all edges in PyTorch, in pieces that fit the cache."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from weightspace.nn.edge_passes import EdgeGrads, EdgeInputs, EdgePasses, Four
from weightspace.nn.pieces import Buffers, Direction, Ends, bundled_directions


class PlainPasses(EdgePasses):
    """The passes without compiled code, for every type and device."""

    def film(self, given: EdgeInputs) -> Four:
        """See :class:`EdgePasses`."""
        outputs = given.received(), given.received(), given.received(), given.received()
        for way in bundled_directions(given.arrangement):
            found = _film(_Lifted.of(given, way))
            for values, output in zip(found, outputs, strict=True):
                way.deliver(values, output)
        return outputs

    def film_backward(self, given: EdgeInputs, grads: Four) -> EdgeGrads:
        """See :class:`EdgePasses`."""
        found = _room(given)
        for way in bundled_directions(given.arrangement):
            own = [way.each(grad) for grad in grads]
            lifted, d_edges = _Lifted.of(given, way), _of(way, found.edges)
            _add(found, way, _film_backward(lifted, own, d_edges))
        return found

    def silu(self, given: EdgeInputs) -> Tensor:
        """See :class:`EdgePasses`."""
        result = torch.empty_like(given.edges, memory_format=torch.contiguous_format)
        for way in bundled_directions(given.arrangement):
            _silu(_Lifted.of(given, way), _of(way, result))
        return result

    def silu_backward(self, given: EdgeInputs, grad: Tensor) -> EdgeGrads:
        """See :class:`EdgePasses`."""
        found = _room(given)
        for way in bundled_directions(given.arrangement):
            lifted, d_edges = _Lifted.of(given, way), _of(way, found.edges)
            _add(found, way, _silu_backward(lifted, _of(way, grad), d_edges))
        return found


class _Lifted(NamedTuple):
    """What belongs to one direction; see :class:`EdgeInputs`."""

    way: Direction
    edges: Tensor
    weight: Tensor
    bias: Tensor
    ends: Ends

    @classmethod
    def of(cls, given: EdgeInputs, way: Direction) -> _Lifted:
        ends = Ends.of(way, given.receivers, given.senders)
        d = way.index
        return cls(way, _of(way, given.edges), given.weight[d], given.bias[d], ends)


_Found = tuple[Tensor, Tensor, Ends]
"""Gradients of weight, bias and ends of one direction."""


def _of(way: Direction, edges: Tensor) -> Tensor:
    return edges[way.index, way.run.edges]


def _room(given: EdgeInputs) -> EdgeGrads:
    d_edges = torch.empty_like(given.edges, memory_format=torch.contiguous_format)
    d_weight, d_bias = torch.zeros_like(given.weight), torch.zeros_like(given.bias)
    return EdgeGrads(d_edges, d_weight, d_bias, given.received(), given.received())


def _add(grads: EdgeGrads, way: Direction, found: _Found) -> None:
    d_weight, d_bias, d_ends = found
    grads.weight[way.index] += d_weight
    grads.bias[way.index] += d_bias
    way.deliver(d_ends.of_receivers, grads.receivers)
    way.opposite.deliver(d_ends.of_senders, grads.senders)


def _film(lifted: _Lifted) -> Four:
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


def _film_backward(lifted: _Lifted, grads: list[Tensor], d_edges: Tensor) -> _Found:
    way, edges, weight, bias, ends = lifted
    width = edges.shape[-1]
    d_weight, d_bias, d_ends = torch.zeros_like(weight), torch.zeros_like(bias), ends.room()
    buffers = Buffers(way, 2 * width, like=edges)
    for piece in buffers.pieces:
        states, modulation = edges[piece.rows], buffers.rows(0, piece, 2 * width)
        torch.addmm(bias, states, weight.T, out=modulation)
        _message_backward(
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


def _silu(lifted: _Lifted, result: Tensor) -> None:
    way, edges, weight, bias, ends = lifted
    for piece in way.pieces(edges.shape[-1]):
        rows, own = result[piece.rows], ends.piece(piece)
        torch.addmm(bias, edges[piece.rows], weight.T, out=rows)
        F.silu(way.dense(rows).add_(own.receiver).add_(own.sender), inplace=True)


def _silu_backward(lifted: _Lifted, grad: Tensor, d_edges: Tensor) -> _Found:
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
    # every edge has one receiver, so what reaches the bias reaches the receivers
    return d_weight, d_ends.of_receivers.sum((0, 1)), d_ends


def _message(modulation: Tensor, ends: Ends, pair: Tensor, message: Tensor) -> None:
    scale, shift = modulation.chunk(2, -1)
    torch.add(ends.receiver, ends.sender, out=pair)
    torch.addcmul(shift, scale, pair, out=message)


def _message_backward(  # noqa: PLR0917
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
