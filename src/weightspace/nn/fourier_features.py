"""Gaussian random Fourier features by themselves, for layers that pool them before any map."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.nn.fourier import RandomFrequencies


class FourierFeatures(RandomFrequencies):
    """Lift values to ``[sin(B x), cos(B x)]`` with ``B`` normal of deviation ``sigma``.

    Rahimi and Recht 2007; Zhou et al. 2023, section 3.1, for weights and biases. ``B`` is not
    trained. See :class:`~weightspace.nn.FourierLinear` where a linear map is all that follows.

    Args:
        channels: values of one item.
        frequencies: how many; the result has twice as many channels.
        sigma: the deviation of the frequencies.

    >>> FourierFeatures(1, frequencies=128, sigma=3.0)(torch.zeros(5, 1)).shape
    torch.Size([5, 256])
    """

    @property
    def width(self) -> int:
        """The number of channels of the result."""
        return 2 * self.frequencies.shape[1]

    def forward(
        self, x: Float[Tensor, "... some"], channels: Sequence[int] | None = None
    ) -> Float[Tensor, "... width"]:
        """Lift values.

        Args:
            x: the values.
            channels: which channels they are, if not all; the others are zero.
        """
        angles = x @ self.of(channels)
        return torch.cat([torch.sin(angles), torch.cos(angles)], dim=-1)
