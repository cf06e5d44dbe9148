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


class SpaceSummary(nn.Module):
    """What lies on no axis once all is pooled, as :attr:`Channels.summary` says: invariant.

    Args:
        channels: of the state.
        kind: how it is pooled.
    """

    def __init__(self, channels: Channels, kind: Aggregate) -> None:
        super().__init__()
        self.space, self.kind = channels.space, kind
        tied = [
            width
            for pair, width in zip(self.space.pairs, channels.matrices, strict=True)
            if pair[0] == pair[1]
        ]
        self.over_columns = _one_each(kind, channels.matrices)
        self.over_both = _one_each(kind, channels.matrices)
        self.over_vectors = _one_each(kind, channels.vectors)
        self.over_diagonals = _one_each(kind, tied)

    def rows(self, state: SpaceState) -> list[Float[Tensor, "batch n c"]]:
        """Each matrix pooled over its columns."""
        if state.pools is not None and self.kind != "attention":
            return [rows for rows, _ in state.pools]
        return [over(m, 2) for m, over in zip(state.matrices, self.over_columns, strict=True)]

    def diagonals(self, state: SpaceState) -> list[Float[Tensor, "batch n c"]]:
        """The diagonals of the matrices of an axis with itself."""
        return [
            torch.diagonal(matrix, dim1=1, dim2=2).transpose(1, 2)
            for matrix, pair in zip(state.matrices, self.space.pairs, strict=True)
            if pair[0] == pair[1]
        ]

    def forward(
        self, state: SpaceState, rows: list[Tensor] | None = None
    ) -> Float[Tensor, "batch c"]:
        """Pool a state.

        Args:
            state: the features.
            rows: the matrices pooled over their columns, where they are at hand.
        """
        rows = self.rows(state) if rows is None else rows
        parts = [state.scalars]
        for values, pools in (
            (state.vectors, self.over_vectors),
            (rows, self.over_both),
            (self.diagonals(state), self.over_diagonals),
        ):
            parts += [over(value, 1) for value, over in zip(values, pools, strict=True)]
        return torch.cat(parts, -1)


class SpacePooling(nn.Module):
    """All poolings of a state: to its axes, and to none.

    Args:
        channels: of the state.
        kind: how it is pooled.
    """

    def __init__(self, channels: Channels, kind: Aggregate) -> None:
        super().__init__()
        self.summary = SpaceSummary(channels, kind)
        self.over_rows = _one_each(kind, channels.matrices)

    def forward(self, state: SpaceState) -> tuple[list[Tensor], Tensor]:
        """Pool a state.

        Returns:
            What lies on each axis, as :meth:`Channels.ends` says, and what lies on none.
        """
        space, rows = self.summary.space, self.summary.rows(state)
        if state.pools is not None and self.summary.kind != "attention":
            columns = [columns for _, columns in state.pools]
        else:
            columns = [over(m, 1) for m, over in zip(state.matrices, self.over_rows, strict=True)]
        ends = {axis: [part] for axis, part in zip(space.axes, state.vectors, strict=True)}
        diagonals = iter(self.summary.diagonals(state))
        for (one, other), of_rows, of_columns in zip(space.pairs, rows, columns, strict=True):
            ends[one].append(of_rows)
            ends[other].append(of_columns)
            if one == other:
                ends[one].append(next(diagonals))
        return [torch.cat(parts, -1) for parts in ends.values()], self.summary(state, rows)


def _one_each(kind: Aggregate, widths: list[int]) -> nn.ModuleList:
    return nn.ModuleList(Pooling(kind, width) for width in widths)
