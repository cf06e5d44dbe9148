"""The loss along the straight line between two networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from weightspace.align.merging import Average, merge_states
from weightspace.graph import State

Loss = Callable[[State], float]


@dataclass(frozen=True)
class Path:
    """Losses on the way from one network to another.

    Args:
        places: from 0 to 1.
        losses: at each place.
    """

    places: tuple[float, ...]
    losses: tuple[float, ...]

    @property
    def barrier(self) -> float:
        """How far the loss rises above the line between its ends.

        Frankle et al. 2020, as Entezari et al. 2022 define it:
        ``max_t L(t) - ((1 - t) L(0) + t L(1))``.

        >>> Path((0.0, 0.5, 1.0), (1.0, 3.0, 2.0)).barrier
        1.5
        """
        first, last = self.losses[0], self.losses[-1]
        return max(
            loss - ((1 - t) * first + t * last)
            for t, loss in zip(self.places, self.losses, strict=True)
        )

    @property
    def middle(self) -> float:
        """The loss half way."""
        return self.losses[len(self.losses) // 2]


def loss_path(loss: Loss, one: State, other: State, *, points: int = 11) -> Path:
    """Evaluate the loss at evenly spaced mixtures of two networks.

    Args:
        loss: of a network's tensors.
        one: at place 0.
        other: at place 1.
        points: how many places, both ends included; odd, to have the middle.

    >>> import torch
    >>> ends = {"w": torch.tensor([-1.0])}, {"w": torch.tensor([1.0])}
    >>> loss_path(lambda state: float(state["w"].square()), *ends, points=3).losses
    (1.0, 0.0, 1.0)
    """
    places = tuple(i / (points - 1) for i in range(points))
    losses = tuple(loss(merge_states([one, other], Average((1 - t, t)))) for t in places)
    return Path(places, losses)
