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
from weightspace.nn.pieces import Direction, Ends, Piece, directions


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
        for way in directions(arrangement):
            ends = Ends.of(way, receivers, senders)
            found = tuple(output[way.received].view(way.run.lead, -1, width) for output in outputs)
            for piece in way.pieces(2 * width):
                modulation = _modulation(way, piece, edges, weight, bias)
                receiver, sender = ends.receiver[piece.lead], ends.sender[piece.lead]
                forward = compiled(_aggregate) if fusing() else _aggregate
                results = forward(modulation, receiver, sender, way.over)
                for output, result in zip(found, results, strict=True):
                    output[piece.lead].copy_(result)
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
        for way in directions(ctx.arrangement):
            ends = Ends.of(way, receivers, senders)
            d_ends = Ends.empty(way, receivers)
            given = tuple(
                grad[way.received].view(way.run.lead, -1, width).unsqueeze(way.over)
                for grad in grads
            )
            for piece in way.pieces(2 * width):
                modulation = _modulation(way, piece, edges, weight, bias)
                receiver, sender = ends.receiver[piece.lead], ends.sender[piece.lead]
                backward = compiled(_backward) if fusing() else _backward
                d_modulation, d_receiver, d_sender = backward(
                    modulation, receiver, sender, way.over, *(g[piece.lead] for g in given)
                )
                d_ends.receiver[piece.lead].copy_(d_receiver)
                d_ends.sender[piece.lead].copy_(d_sender)
                rows = d_modulation.view(-1, 2 * width)
                torch.mm(rows, weight[way.index], out=d_edges[way.index, piece.edges])
                d_weight[way.index].addmm_(rows.T, edges[way.index, piece.edges])
                d_bias[way.index] += rows.sum(0)
            d_ends.add_to(way, d_receivers, d_senders)
        return None, d_edges, d_weight, d_bias, d_receivers, d_senders


def _modulation(
    way: Direction, piece: Piece, edges: Tensor, weight: Tensor, bias: Tensor
) -> Float[Tensor, "lead targets sources 2d"]:
    """Scale and shift of a piece's edges."""
    states = edges[way.index, piece.edges]
    rows = torch.addmm(bias[way.index], states, weight[way.index].T)
    return rows.view(-1, way.run.targets, way.run.sources, rows.shape[-1])


def _aggregate(
    modulation: Tensor, receiver: Tensor, sender: Tensor, over: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    scale, shift = modulation.chunk(2, -1)
    message = torch.addcmul(shift, scale, receiver + sender)
    least, most = message.amin(over), message.amax(over)
    return message.sum(over), (message * message).sum(over), least, most


def _backward(
    modulation: Tensor, receiver: Tensor, sender: Tensor, over: int, *grads: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient. The extremes are found again, since a fused sum may round otherwise."""
    d_total, d_squares, d_least, d_most = grads
    scale, shift = modulation.chunk(2, -1)
    pair = receiver + sender
    message = torch.addcmul(shift, scale, pair)
    d_message = torch.addcmul(d_total, message, 2 * d_squares)
    for extreme, grad in (
        (message.amin(over, True), d_least),
        (message.amax(over, True), d_most),
    ):
        mask = (message == extreme).to(message.dtype)
        d_message = torch.addcmul(d_message, mask, grad / mask.sum(over, keepdim=True))
    d_pair = d_message * scale
    d_modulation = torch.cat([d_message * pair, d_message], dim=-1)
    return d_modulation, d_pair.sum(over, keepdim=True), d_pair.sum(3 - over, keepdim=True)
