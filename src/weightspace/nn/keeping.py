"""Dropout for large buffers: which values are kept, one byte each."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

_LEVELS = 256


@dataclass(frozen=True, eq=False)
class Kept:
    """Which values dropout keeps.

    Drawing a random byte for each value takes a twentieth of the time of ``bernoulli_``; so the
    rate is a multiple of 1/256.

    Args:
        mask: true where a value is kept.
        scale: the factor that makes up for those that are not.
    """

    mask: Bool[Tensor, "items d"]
    scale: float

    @classmethod
    def draw(cls, items: int, width: int, rate: float, device: torch.device) -> Kept | None:
        """Draw a mask from torch's random numbers; None if nothing is dropped.

        Args:
            items: rows.
            width: values of each.
            rate: of values dropped, rounded to 1/256.
            device: where the mask is to be.

        >>> Kept.draw(2, 3, 0.0, torch.device("cpu")) is None
        True
        """
        dropped = round(rate * _LEVELS)
        if dropped == 0:
            return None
        words = torch.empty((items * width + 7) // 8, dtype=torch.int64, device=device)
        words.random_(torch.iinfo(torch.int64).min, None)
        levels = words.view(torch.uint8)[: items * width].view(items, width)
        return cls(levels >= dropped, _LEVELS / (_LEVELS - dropped))

    def factors(self, rows: slice, like: Tensor) -> Float[Tensor, "rows d"]:
        """Ones and zeros of some rows, to be multiplied by; without the scale."""
        # from bytes: numbers are made of them faster than of truth values
        return self.mask[rows].view(torch.int8).to(like.dtype)
