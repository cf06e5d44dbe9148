"""Feature-wise linear modulation of messages, and their aggregation.

The naive computation writes a dozen temporaries as large as all edges of a batch, and on a CPU
most of its time goes into fetching their pages. Here forward and backward are written out over
pieces that stay in the processor's cache, the map from edge states to scales and shifts
included: nothing as large as the edges is written but the gradient of their states.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from weightspace.nn.arrangement import Arrangement
from weightspace.nn.edge_maps import DirectedMap
from weightspace.nn.fusion import compiled, fusing
from weightspace.nn.pieces import Buffers, Ends, bundled_directions


class Aggregate(NamedTuple):
    """Sums, sums of squares, minima and maxima of messages at each neuron."""

    total: Tensor
    squares: Tensor
    minimum: Tensor
    maximum: Tensor

    def statistics(self, count: Tensor) -> Float[Tensor, "... 4d"]:
        """Mean, minimum, maximum and deviation of ``count`` messages at each neuron."""
        mean = self.total / count
        variance = (self.squares / count - mean * mean).clamp_min(0.0)
        deviation = (variance + 1e-5).sqrt()
        return torch.cat([mean, self.minimum, self.maximum, deviation], dim=-1)


def film_aggregate(
    arrangement: Arrangement,
    edges: Float[Tensor, "two edges d"],
    film: DirectedMap,
    receivers: Float[Tensor, "nodes d"],
    senders: Float[Tensor, "nodes d"],
) -> Aggregate:
    """Compute ``m_ij = s_ij * (A x_i + B x_j) + t_ij`` and aggregate at each ``i``.

    Kofinas et al. 2024, appendix on PNA with edge features, with ``[s, t] = F e + f``. Messages
    run along every connection and against it. Where several of a run are the minimum or
    maximum together, they share its gradient evenly, and so do runs.

    Args:
        arrangement: of the batch.
        edges: the states along connections and against them.
        film: the map to scale and shift of each direction.
        receivers: ``A x_i``.
        senders: ``B x_j``.
    """
    outputs = _FilmAggregate.apply(  # type: ignore[no-untyped-call]
        arrangement, edges, film.weight, film.bias, receivers, senders
    )
    total, squares, minimum, maximum = outputs
    return Aggregate(
        arrangement.merge(total),
        arrangement.merge(squares),
        arrangement.merge(minimum, torch.minimum),
        arrangement.merge(maximum, torch.maximum),
    )


class _FilmAggregate(Function):
    @staticmethod
    def forward(  # noqa: PLR0917 (autograd passes by position)
        ctx: Any,
        arrangement: Arrangement,
        edges: Tensor,
        weight: Tensor,
        bias: Tensor,
        receivers: Tensor,
        senders: Tensor,
    ) -> tuple[Tensor, ...]:
        width = receivers.shape[-1]
        outputs = tuple(receivers.new_empty(arrangement.received_count, width) for _ in range(4))
        aggregate = compiled(_fused_aggregate) if fusing() else _aggregate
        for way in bundled_directions(arrangement):
            ends = Ends.of(way, receivers, senders)
            found = [way.room(output) for output in outputs]
            buffers = Buffers(way, 2 * width, like=receivers)
            for piece in buffers.pieces:
                modulation = buffers.rows(0, piece, 2 * width)
                torch.addmm(
                    bias[way.index],
                    edges[way.index, piece.edges],
                    weight[way.index].T,
                    out=modulation,
                )
                results = aggregate(
                    way.dense(modulation),
                    ends.receiver[piece.lead],
                    ends.sender[piece.lead],
                    way.over,
                    *(way.dense(buffers.rows(i, piece, width)) for i in (1, 2)),
                )
                for room, result in zip(found, results, strict=True):
                    room[piece.lead].copy_(result)
            for room, output in zip(found, outputs, strict=True):
                way.deliver(room, output)
        ctx.save_for_backward(edges, weight, bias, receivers, senders)
        ctx.arrangement = arrangement
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        edges, weight, bias, receivers, senders = ctx.saved_tensors
        width = receivers.shape[-1]
        d_edges = torch.empty_like(edges, memory_format=torch.contiguous_format)
        d_weight, d_bias = torch.zeros_like(weight), torch.zeros_like(bias)
        d_receivers, d_senders = torch.zeros_like(receivers), torch.zeros_like(senders)
        backward = compiled(_fused_backward) if fusing() else _backward
        for way in bundled_directions(ctx.arrangement):
            ends, d_ends = Ends.of(way, receivers, senders), Ends.empty(way, receivers)
            given = [way.each(grad) for grad in grads]
            buffers = Buffers(way, 2 * width, like=receivers)
            for piece in buffers.pieces:
                states = edges[way.index, piece.edges]
                modulation = buffers.rows(0, piece, 2 * width)
                torch.addmm(bias[way.index], states, weight[way.index].T, out=modulation)
                d_modulation, d_receiver, d_sender = backward(
                    way.dense(modulation),
                    ends.receiver[piece.lead],
                    ends.sender[piece.lead],
                    way.over,
                    [grad[piece.lead] for grad in given],
                    [way.dense(buffers.rows(i, piece, width)) for i in (1, 2, 3, 4)],
                )
                d_ends.receiver[piece.lead].copy_(d_receiver)
                d_ends.sender[piece.lead].copy_(d_sender)
                rows = d_modulation.view(-1, 2 * width)
                torch.mm(rows, weight[way.index], out=d_edges[way.index, piece.edges])
                d_weight[way.index].addmm_(rows.T, states)
                d_bias[way.index] += rows.sum(0)
            d_ends.add_to(way, d_receivers, d_senders)
        return None, d_edges, d_weight, d_bias, d_receivers, d_senders


Four = tuple[Tensor, Tensor, Tensor, Tensor]
Three = tuple[Tensor, Tensor, Tensor]


def _aggregate(  # noqa: PLR0917
    modulation: Tensor, receiver: Tensor, sender: Tensor, over: int, pair: Tensor, message: Tensor
) -> Four:
    """Aggregate a piece's messages, in buffers."""
    _message(modulation, receiver, sender, pair, message)
    total, least, most = message.sum(over), message.amin(over), message.amax(over)
    return total, message.mul_(message).sum(over), least, most


def _message(
    modulation: Tensor, receiver: Tensor, sender: Tensor, pair: Tensor, message: Tensor
) -> None:
    scale, shift = modulation.chunk(2, -1)
    torch.add(receiver, sender, out=pair)
    torch.addcmul(shift, scale, pair, out=message)


def _backward(  # noqa: PLR0917
    modulation: Tensor,
    receiver: Tensor,
    sender: Tensor,
    over: int,
    grads: list[Tensor],
    buffers: list[Tensor],
) -> Three:
    """The gradients of scale and shift, in their place, and of the ends."""
    pair, message, mask, d_message = buffers
    d_total, d_squares, d_least, d_most = grads
    scale, shift = modulation.chunk(2, -1)
    _message(modulation, receiver, sender, pair, message)
    torch.addcmul(d_total, message, 2 * d_squares, out=d_message)
    for extreme, grad in ((message.amin(over, True), d_least), (message.amax(over, True), d_most)):
        torch.eq(message, extreme, out=mask)
        d_message.addcmul_(mask, grad / mask.sum(over, keepdim=True))
    shift.copy_(d_message)
    d_pair = torch.mul(d_message, scale, out=message)
    torch.mul(d_message, pair, out=scale)
    return modulation, d_pair.sum(over, keepdim=True), d_pair.sum(3 - over, keepdim=True)


def _fused_aggregate(  # noqa: PLR0917
    modulation: Tensor, receiver: Tensor, sender: Tensor, over: int, pair: Tensor, message: Tensor
) -> Four:
    """The plain formula, for a compiler that fuses it into one pass; it needs no buffers."""
    scale, shift = modulation.chunk(2, -1)
    values = scale * (receiver + sender) + shift
    return values.sum(over), (values * values).sum(over), values.amin(over), values.amax(over)


def _fused_backward(  # noqa: PLR0917
    modulation: Tensor,
    receiver: Tensor,
    sender: Tensor,
    over: int,
    grads: list[Tensor],
    buffers: list[Tensor],
) -> Three:
    """The plain gradient, for a compiler."""
    d_total, d_squares, d_least, d_most = grads
    scale, shift = modulation.chunk(2, -1)
    pair = receiver + sender
    message = scale * pair + shift
    d_message = d_total + 2 * message * d_squares
    for extreme, grad in ((message.amin(over, True), d_least), (message.amax(over, True), d_most)):
        mask = (message == extreme).to(message.dtype)
        d_message = d_message + mask * (grad / mask.sum(over, keepdim=True))
    d_pair = d_message * scale
    d_modulation = torch.cat([d_message * pair, d_message], dim=-1)
    return d_modulation, d_pair.sum(over, keepdim=True), d_pair.sum(3 - over, keepdim=True)
