"""The networks' own weights as the layers of huge networks read them: in place, uncopied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.nn.arrangement import Run
from weightspace.nn.cached_parts import cached_parts
from weightspace.nn.lifts import Lifting
from weightspace.nn.networks import Networks

PIECE_VALUES = 1 << 19
"""Lifted values of a piece: two megabytes, a core's second-level cache."""
JOINED_VALUES = 1 << 20
"""Blocks of a run are copied side by side as long as they are no larger together."""


@dataclass(frozen=True, eq=False)
class RawBlock:
    """Some blocks of a run with their own weights.

    Args:
        values: the weights, a view wherever strides allow.
        mean: of each feature channel.
        std: its deviation; layers read ``(values - mean) / std``.
    """

    values: Float[Tensor, "lead targets sources features"]
    mean: Float[Tensor, " features"]
    std: Float[Tensor, " features"]
    _lifted: dict[Lifting, Tensor] = field(init=False, repr=False, default_factory=dict)

    @property
    def few(self) -> bool:
        """Whether a product of matrices would not pay: its inner dimension is tiny."""
        return min(self.values.shape[1:3]) <= 4

    def small(self, lifts: int) -> bool:
        """Whether all lifted weights fit the cache at once, so that pieces would not pay."""
        return self.values.numel() * lifts <= PIECE_VALUES

    def lifted(self, lifting: Lifting) -> Float[Tensor, "lead targets sources lifted"]:
        """All lifts of the normalised weights, made once for all layers: for small blocks."""
        if lifting not in self._lifted:
            self._lifted[lifting] = lifting(self.normal)
        return self._lifted[lifting]

    @property
    def normal(self) -> Float[Tensor, "lead targets sources features"]:
        """The normalised weights: a copy."""
        return (self.values - self.mean) / self.std

    def pieces(self, lifts: int, width: int) -> Iterator[tuple[slice, list[slice]]]:
        """Cut the block so that the lifted weights of a piece fit the cache.

        Args:
            lifts: of each feature channel.
            width: channels of the states that the weights are multiplied by.

        Yields:
            A range of the lead, and ranges of its target rows.
        """
        lead, targets, sources, features = self.values.shape
        row = features * lifts * max(sources, width)
        for part in cached_parts(lead, row * targets, PIECE_VALUES):
            yield part, cached_parts(targets, row * (part.stop - part.start), PIECE_VALUES)

    def channel(
        self, lead: slice, rows: slice, place: int, *, out: Tensor | None = None
    ) -> Float[Tensor, "l t s"]:
        """The normalised weights of a piece in one feature channel: a small copy."""
        part = self.values.detach()[lead, rows, :, place]
        shift = -self.mean[place] / self.std[place]
        return torch.add(shift, part, alpha=1 / float(self.std[place]), out=out)


def raw_blocks(networks: Networks, run: Run) -> tuple[RawBlock, ...]:
    """The blocks of a run, in the order of its lead; small ones are joined."""
    blocks = []
    for member in run.members:
        spec = networks.arrangement.specs[member.part]
        values, mean, std = networks.features(member.part, spec.blocks[member.block])
        blocks.append(RawBlock(values.flatten(0, 1), mean, std))
    if len(blocks) == 1 or sum(block.values.numel() for block in blocks) > JOINED_VALUES:
        return tuple(blocks)
    first = blocks[0]
    joined = torch.cat([block.normal for block in blocks])
    return (replace(first, values=joined, mean=0 * first.mean, std=torch.ones_like(first.std)),)
