"""Feature-wise linear modulation of messages, and their aggregation, on one block.

The naive computation writes a dozen temporaries as large as all edges of a layer, and on a
CPU most of its time goes into fetching their pages. Here forward and backward are written out
over pieces of the batch that stay in the processor's cache, in buffers that are used again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from weightspace.nn.cached_parts import CACHED_VALUES, cached_parts
from weightspace.nn.fusion import compiled, fusing


class Aggregate(NamedTuple):
    """Sums, sums of squares, minima and maxima of messages at each neuron."""

    total: Tensor
    squares: Tensor
    minimum: Tensor
    maximum: Tensor

    def merge(self, other: Aggregate) -> Aggregate:
        """Aggregate the messages of both."""
        return Aggregate(
            self.total + other.total,
            self.squares + other.squares,
            torch.minimum(self.minimum, other.minimum),
            torch.maximum(self.maximum, other.maximum),
        )

    def statistics(self, count: Tensor) -> Float[Tensor, "... 4d"]:
        """Mean, minimum, maximum and deviation of ``count`` messages at each neuron."""
        mean = self.total / count
        variance = (self.squares / count - mean * mean).clamp_min(0.0)
        deviation = (variance + 1e-5).sqrt()
        return torch.cat([mean, self.minimum, self.maximum, deviation], dim=-1)


def film_aggregate(
    film: Float[Tensor, "batch groups targets sources 2d"],
    receiver: Tensor,
    sender: Tensor,
    *,
    over: int,
) -> Aggregate:
    """Compute ``m_ij = s_ij * (A x_i + B x_j) + t_ij`` and aggregate over ``j``.

    Kofinas et al. 2024, appendix on PNA with edge features. Where several messages are the
    minimum or maximum together, they share its gradient evenly.

    Args:
        film: ``s_ij`` and ``t_ij`` side by side, for every connection.
        receiver: ``A x_i``, with a dimension of one where the senders are.
        sender: ``B x_j``, with a dimension of one where the receivers are.
        over: the dimension of the senders, 2 or 3.

    >>> film, x = torch.ones(1, 1, 2, 3, 8), torch.ones(1, 1, 2, 1, 4)
    >>> film_aggregate(film, x, torch.zeros(1, 1, 1, 3, 4), over=3).total.shape
    torch.Size([1, 1, 2, 4])
    """
    outputs = _FilmAggregate.apply(film, receiver, sender, over)  # type: ignore[no-untyped-call]
    return Aggregate(*outputs)


class _FilmAggregate(Function):
    @staticmethod
    def forward(
        ctx: Any, film: Tensor, receiver: Tensor, sender: Tensor, over: int
    ) -> tuple[Tensor, ...]:
        ctx.over = over
        ctx.fused = fusing()
        if ctx.fused:
            ctx.save_for_backward(film, receiver, sender)
            fused: tuple[Tensor, ...] = compiled(_fused_forward)(film, receiver, sender, over)
            return fused
        shape = [size for place, size in enumerate(film.shape[:-1]) if place != over]
        outputs = tuple(film.new_empty(*shape, receiver.shape[-1]) for _ in range(4))
        buffers = _Buffers(film, 2)
        for part in buffers.parts:
            pair, message = buffers.cut(part)
            total, squares, minimum, maximum = (output[part] for output in outputs)
            _message(film[part], receiver[part], sender[part], pair, message)
            torch.sum(message, over, out=total)
            torch.amin(message, over, out=minimum)
            torch.amax(message, over, out=maximum)
            torch.sum(message.mul_(message), over, out=squares)
        ctx.save_for_backward(film, receiver, sender, outputs[2], outputs[3])
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        over, across = ctx.over, 5 - ctx.over
        if ctx.fused:
            return *compiled(_fused_backward)(*ctx.saved_tensors, over, *grads), None
        film, receiver, sender, minimum, maximum = ctx.saved_tensors
        d_film, d_receiver, d_sender = (torch.empty_like(x) for x in (film, receiver, sender))
        buffers = _Buffers(film, 4)
        for part in buffers.parts:
            pair, message, mask, d_message = buffers.cut(part)
            d_total, d_squares, d_min, d_max = (grad[part].unsqueeze(over) for grad in grads)
            scale, _ = film[part].chunk(2, -1)
            d_scale, d_shift = d_film[part].chunk(2, -1)
            _message(film[part], receiver[part], sender[part], pair, message)
            torch.addcmul(d_total, message, 2 * d_squares, out=d_message)
            for extreme, grad in ((minimum, d_min), (maximum, d_max)):
                torch.eq(message, extreme[part].unsqueeze(over), out=mask)
                d_message.addcmul_(mask, grad / mask.sum(over, keepdim=True))
            d_shift.copy_(d_message)
            torch.mul(d_message, pair, out=d_scale)
            d_pair = torch.mul(d_message, scale, out=pair)
            torch.sum(d_pair, over, keepdim=True, out=d_receiver[part])
            torch.sum(d_pair, across, keepdim=True, out=d_sender[part])
        return d_film, d_receiver, d_sender, None


def _message(film: Tensor, receiver: Tensor, sender: Tensor, pair: Tensor, message: Tensor) -> None:
    """Write ``A x_i + B x_j`` and the message into buffers."""
    scale, shift = film.chunk(2, -1)
    torch.add(receiver, sender, out=pair)
    torch.addcmul(shift, scale, pair, out=message)


def _fused_forward(film: Tensor, receiver: Tensor, sender: Tensor, over: int) -> tuple[Tensor, ...]:
    """The plain formula, for a compiler that fuses it into one pass."""
    scale, shift = film.chunk(2, -1)
    message = scale * (receiver + sender) + shift
    return (
        message.sum(over),
        (message * message).sum(over),
        message.amin(over),
        message.amax(over),
    )


def _fused_backward(
    film: Tensor, receiver: Tensor, sender: Tensor, over: int, *grads: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The plain gradient. The extremes are found again, since a fused sum may round otherwise."""
    d_total, d_squares, d_min, d_max = (grad.unsqueeze(over) for grad in grads)
    scale, shift = film.chunk(2, -1)
    pair = receiver + sender
    message = scale * pair + shift
    d_message = d_total + 2 * message * d_squares
    for extreme, grad in ((message.amin(over, True), d_min), (message.amax(over, True), d_max)):
        mask = (message == extreme).to(message.dtype)
        d_message = d_message + mask * (grad / mask.sum(over, keepdim=True))
    d_pair = d_message * scale
    d_film = torch.cat([d_message * pair, d_message], dim=-1)
    return d_film, d_pair.sum(over, keepdim=True), d_pair.sum(5 - over, keepdim=True)


class _Buffers:
    """Ranges of the batch whose messages fit the cache, and buffers for one of them."""

    def __init__(self, film: Tensor, count: int) -> None:
        *inner, width = film.shape[1:]
        self.parts = cached_parts(len(film), film[0].numel() // 2, CACHED_VALUES)
        step = self.parts[0].stop
        self._whole = [film.new_empty(step, *inner, width // 2) for _ in range(count)]

    def cut(self, part: slice) -> Iterator[Tensor]:
        """The buffers, shortened for the last range."""
        return (buffer[: part.stop - part.start] for buffer in self._whole)
