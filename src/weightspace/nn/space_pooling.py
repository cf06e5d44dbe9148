"""Pooling states of a weight space to its axes, and to nothing."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.nn.space_state import Channels, SpaceState

Aggregate = Literal["sum", "max", "attention"]
HEADS = 4


class Pooling(nn.Module):
    """Pools one dimension: by the mean, the maximum, or attention.

    Navon et al. 2023, section 5, build their blocks of sums over an axis, or of other set
    layers. A sum over an axis of fixed size is its mean but for a factor, which is left to the
    weights that follow. Attention weighs elements by the softmax of a learned linear map of
    them, one weight for each head.

    Args:
        kind: which.
        channels: of what is pooled.

    >>> Pooling("sum", 2)(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), 0)
    tensor([2., 3.])
    """

    def __init__(self, kind: Aggregate, channels: int) -> None:
        super().__init__()
        self.kind = kind
        self.heads = HEADS if channels % HEADS == 0 else 1
        attends = kind == "attention" and channels > 0
        self.score = nn.Linear(channels, self.heads, bias=False) if attends else None

    def forward(self, values: Float[Tensor, "... c"], dimension: int) -> Tensor:
        """Pool a dimension other than the last."""
        if values.shape[-1] == 0 or self.kind == "sum":
            return values.mean(dimension)
        if self.score is None:
            return values.amax(dimension)
        weights = torch.softmax(self.score(values), dimension).unsqueeze(-1)
        by_head = values.reshape(*values.shape[:-1], self.heads, -1)
        pooled: Tensor = (weights * by_head).sum(dimension).flatten(-2)
        return pooled


class SpacePooling(nn.Module):
    """All poolings of a state.

    Args:
        channels: of the state.
        kind: how it is pooled.
    """

    def __init__(self, channels: Channels, kind: Aggregate) -> None:
        super().__init__()
        self.space, self.kind = channels.space, kind

        def one_each(widths: list[int]) -> nn.ModuleList:
            return nn.ModuleList(Pooling(kind, width) for width in widths)

        self.over_columns = one_each(channels.matrices)
        self.over_rows = one_each(channels.matrices)
        self.over_both = one_each(channels.matrices)
        self.over_vectors = one_each(channels.vectors)
        tied = [
            width
            for pair, width in zip(self.space.pairs, channels.matrices, strict=True)
            if pair[0] == pair[1]
        ]
        self.over_diagonals = one_each(tied)

    def forward(self, state: SpaceState) -> tuple[list[Tensor], Tensor]:
        """Pool a state.

        Returns:
            What lies on each axis, as :meth:`Channels.ends` says, and what lies on none, as
            :attr:`Channels.summary` says.
        """
        space = self.space
        pools = state.pools
        if pools is None or self.kind == "attention":
            pools = [
                (over_columns(matrix, 2), over_rows(matrix, 1))
                for matrix, over_columns, over_rows in zip(
                    state.matrices, self.over_columns, self.over_rows, strict=True
                )
            ]
        ends = {axis: [part] for axis, part in zip(space.axes, state.vectors, strict=True)}
        summary = [state.scalars]
        summary += [
            over(part, 1) for part, over in zip(state.vectors, self.over_vectors, strict=True)
        ]
        diagonals: list[Tensor] = []
        for i, (one, other) in enumerate(space.pairs):
            rows, columns = pools[i]
            ends[one].append(rows)
            ends[other].append(columns)
            summary.append(self.over_both[i](rows, 1))
            if one == other:
                diagonal = torch.diagonal(state.matrices[i], dim1=1, dim2=2).transpose(1, 2)
                ends[one].append(diagonal)
                diagonals.append(self.over_diagonals[len(diagonals)](diagonal, 1))
        return [torch.cat(parts, -1) for parts in ends.values()], torch.cat(summary + diagonals, -1)
