"""Products of lifted weights with node states, and their gradient, piece by piece.

Of a network's weights nothing is written but the lifted values of a few megabytes at a time:
a piece is lifted once and multiplied with the states of both its ends while it is in the cache.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function

from weightspace.nn.first_derivative import first_derivative
from weightspace.nn.lifts import Lifting
from weightspace.nn.raw_blocks import RawBlock


def lifted_products(
    block: RawBlock,
    lifting: Lifting,
    scales: Float[Tensor, "two lifted d"],
    sources: Float[Tensor, "lead sources d"],
    targets: Float[Tensor, "lead targets d"],
) -> tuple[Float[Tensor, "lead targets d"], Float[Tensor, "lead sources d"]]:
    """Compute ``sum_f S_f * (lift_f(W) X)`` along a block, with ``W^T`` against it.

    Takes ``2 d`` operations a weight, lift and direction, and the same again for the gradient.

    Args:
        block: the weights W.
        lifting: the lifts of each feature channel.
        scales: ``S_f`` along and against.
        sources: the states that are sent along.
        targets: the states that are sent against.
    """
    if block.few:
        return _pairwise(block.lifted(lifting), scales, sources, targets)
    if block.small(lifting.count):
        lifted = block.lifted(lifting)
        against = _carried(lifted.transpose(1, 2), scales[1], targets)
        return _carried(lifted, scales[0], sources), against
    result: tuple[Tensor, Tensor] = _Products.apply(  # type: ignore[no-untyped-call]
        block, lifting, block.values, scales, sources, targets
    )
    return result


def lift_sums(
    block: RawBlock, lifting: Lifting
) -> tuple[Float[Tensor, "lead targets lifted"], Float[Tensor, "lead sources lifted"]]:
    """The sums of all lifted weights at each target, and at each source."""
    if block.few or block.small(lifting.count):
        lifted = block.lifted(lifting)
        return lifted.sum(2), lifted.sum(1)
    result: tuple[Tensor, Tensor] = _Sums.apply(  # type: ignore[no-untyped-call]
        block, lifting, block.values
    )
    return result


def _pairwise(
    lifted: Tensor, scales: Tensor, sources: Tensor, targets: Tensor
) -> tuple[Tensor, Tensor]:
    """The same edge by edge, for blocks that have few of them."""
    along, against = lifted @ scales[0], lifted @ scales[1]
    return (along * sources.unsqueeze(1)).sum(2), (against * targets.unsqueeze(2)).sum(1)


def _carried(
    lifted: Float[Tensor, "lead receivers senders lifted"],
    scales: Float[Tensor, "lifted d"],
    states: Float[Tensor, "lead senders d"],
) -> Float[Tensor, "lead receivers d"]:
    """What arrives at the receivers of a small block, as one product of matrices."""
    return lifted.flatten(2, 3) @ (states.unsqueeze(2) * scales).flatten(1, 2)


class _Products(Function):
    @staticmethod
    def forward(  # noqa: PLR0917 (autograd passes by position)
        ctx: Any,
        block: RawBlock,
        lifting: Lifting,
        values: Tensor,
        scales: Tensor,
        sources: Tensor,
        targets: Tensor,
    ) -> tuple[Tensor, Tensor]:
        along, against = torch.empty_like(targets), torch.zeros_like(sources)
        lifter = Lifter(block, lifting, sources.shape[-1])
        for lead, ranges in lifter.pieces:
            for rows in ranges:
                lifted = lifter(lead, rows)
                found = _flat(lifted) @ sources[lead]
                _weighted(found, scales[0], out=along[lead, rows])
                sent = targets[lead, rows].unsqueeze(1) * scales[1].unsqueeze(1)
                against[lead].baddbmm_(_flat(lifted).transpose(1, 2), sent.flatten(1, 2))
        ctx.save_for_backward(values, scales, sources, targets)
        ctx.block, ctx.lifting = block, lifting
        return along, against

    @staticmethod
    @first_derivative
    def backward(ctx: Any, d_along: Tensor, d_against: Tensor) -> tuple[Tensor | None, ...]:
        values, scales, sources, targets = ctx.saved_tensors
        lifter = Lifter(ctx.block, ctx.lifting, sources.shape[-1])
        d_values = torch.empty_like(values) if ctx.needs_input_grad[2] else None
        d_scales = torch.zeros_like(scales)
        d_sources, d_targets = torch.empty_like(sources), torch.empty_like(targets)
        for lead, ranges in lifter.pieces:
            # Each lift's product with the gradient serves both the states and the scales.
            back = _room_for(sources[lead], scales.shape[1])
            for rows in ranges:
                lifted = lifter(lead, rows)
                given = d_along[lead, rows]
                back += lifted.transpose(2, 3) @ given.unsqueeze(1)
                found = _flat(lifted) @ d_against[lead]
                _weighted(found, scales[1], out=d_targets[lead, rows])
                _add_products(found, targets[lead, rows], d_scales[1])
                if d_values is not None:
                    sent = torch.cat(
                        [
                            given.unsqueeze(1) * scales[0].unsqueeze(1),
                            targets[lead, rows].unsqueeze(1) * scales[1].unsqueeze(1),
                        ],
                        dim=-1,
                    )
                    other = torch.cat([sources[lead], d_against[lead]], dim=-1)
                    d_lifted = sent @ other.unsqueeze(1).transpose(2, 3)
                    lifter.pull(lead, rows, d_lifted, d_values)
            _weighted(back.flatten(1, 2), scales[0], out=d_sources[lead])
            _add_products(back.flatten(1, 2), sources[lead], d_scales[0])
        return None, None, d_values, d_scales, d_sources, d_targets


class _Sums(Function):
    @staticmethod
    def forward(
        ctx: Any, block: RawBlock, lifting: Lifting, values: Tensor
    ) -> tuple[Tensor, Tensor]:
        lead_size, targets, sources, features = values.shape
        lifted_size = features * lifting.count
        along = values.new_empty(lead_size, lifted_size, targets)
        against = values.new_zeros(lead_size, lifted_size, sources)
        lifter = Lifter(block, lifting, 1)
        for lead, ranges in lifter.pieces:
            for rows in ranges:
                lifted = lifter(lead, rows)
                along[lead, :, rows] = lifted.sum(3)
                against[lead] += lifted.sum(2)
        ctx.save_for_backward(values)
        ctx.block, ctx.lifting = block, lifting
        return along.transpose(1, 2), against.transpose(1, 2)

    @staticmethod
    @first_derivative
    def backward(ctx: Any, d_along: Tensor, d_against: Tensor) -> tuple[None, None, Tensor | None]:
        (values,) = ctx.saved_tensors
        if not ctx.needs_input_grad[2]:
            return None, None, None
        d_values = torch.empty_like(values)
        lifter = Lifter(ctx.block, ctx.lifting, 1)
        for lead, ranges in lifter.pieces:
            for rows in ranges:
                at_target = d_along[lead, rows].transpose(1, 2).unsqueeze(3)
                at_source = d_against[lead].transpose(1, 2).unsqueeze(2)
                lifter.pull(lead, rows, at_target + at_source, d_values)
        return None, None, d_values


class Lifter:
    """Lifts the pieces of a block, one after another in the same room.

    Fresh memory for every piece would cost more than the lifts: its pages are fetched one by one.

    Args:
        block: the weights.
        lifting: the lifts of each feature channel.
        width: channels of the states that the weights are multiplied by.
    """

    def __init__(self, block: RawBlock, lifting: Lifting, width: int) -> None:
        self.block, self.lifting = block, lifting
        self.pieces = list(block.pieces(lifting.count, width))
        _, _, sources, features = block.values.shape
        largest = max(
            (lead.stop - lead.start) * (rows.stop - rows.start)
            for lead, ranges in self.pieces
            for rows in ranges
        )
        self._room = block.values.new_empty(largest * sources * features * lifting.count)

    def __call__(self, lead: slice, rows: slice) -> Float[Tensor, "l lifted t s"]:
        """All lifts of all channels of a piece; valid until the next call."""
        count, block = self.lifting.count, self.block
        _, _, sources, features = block.values.shape
        shape = (lead.stop - lead.start, features * count, rows.stop - rows.start, sources)
        rooms = self._room[: math.prod(shape)].view(shape)
        for place in range(features):
            own = rooms[:, place * count : (place + 1) * count].transpose(0, 1)
            block.channel(lead, rows, place, out=own[0])
            self.lifting.fill(own)
        return rooms

    def pull(self, lead: slice, rows: slice, grads: Tensor, d_values: Tensor) -> None:
        """Write the gradient of a piece's own weights from that of its lifts."""
        count, block = self.lifting.count, self.block
        for place in range(block.values.shape[3]):
            channel = block.channel(lead, rows, place)
            own = grads[:, place * count : (place + 1) * count].transpose(0, 1)
            d_values[lead, rows, :, place] = self.lifting.pull(channel, own) / block.std[place]


def _flat(lifted: Float[Tensor, "l lifted t s"]) -> Float[Tensor, "l rows s"]:
    return lifted.flatten(1, 2)


def _room_for(states: Float[Tensor, "l n d"], lifted: int) -> Float[Tensor, "l lifted n d"]:
    return states.new_zeros(states.shape[0], lifted, *states.shape[1:])


def _weighted(
    found: Float[Tensor, "l rows d"], scales: Float[Tensor, "lifted d"], *, out: Tensor
) -> None:
    """Sum the lifts' products by their scales."""
    each = found.view(found.shape[0], scales.shape[0], -1, found.shape[2])
    torch.mul(each[:, 0], scales[0], out=out)
    for place in range(1, scales.shape[0]):
        out.addcmul_(each[:, place], scales[place])


def _add_products(
    found: Float[Tensor, "l rows d"],
    states: Float[Tensor, "l n d"],
    total: Float[Tensor, "lifted d"],
) -> None:
    """Add what each scale multiplies, times the states it is multiplied with."""
    each = found.view(found.shape[0], total.shape[0], -1, found.shape[2])
    for place in range(total.shape[0]):
        total[place] += (each[:, place] * states).sum((0, 1))
