"""Gaussian random Fourier features of weights and biases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class FourierFeatures(nn.Module):
    """Lift values to sines and cosines of random frequencies.

    Rahimi and Recht 2007, used by Kofinas et al. 2024 for weights and biases:
    ``[sin(B x), cos(B x)]`` with ``B`` normal of deviation ``sigma``, not trained. The
    frequencies are in radians: with a factor of 2 pi as in Tancik et al. 2020, deviation 3
    would make neighbouring values of normalised weights look unrelated.

    Args:
        channels: values of one item.
        frequencies: how many frequencies; the result has twice as many channels.
        sigma: the deviation of the frequencies.

    >>> FourierFeatures(1, frequencies=128, sigma=3.0)(torch.zeros(5, 1)).shape
    torch.Size([5, 256])
    """

    frequencies: Tensor

    def __init__(self, channels: int, *, frequencies: int = 128, sigma: float = 3.0) -> None:
        super().__init__()
        self.register_buffer("frequencies", sigma * torch.randn(channels, frequencies))

    @property
    def width(self) -> int:
        """The number of channels of the result."""
        return 2 * self.frequencies.shape[1]

    def forward(self, x: Float[Tensor, "... channels"]) -> Float[Tensor, "... width"]:
        """Lift the values."""
        return self.lift(x @ self.frequencies)

    def angles(
        self, x: Float[Tensor, "items some"], channels: Sequence[int]
    ) -> Float[Tensor, "items frequencies"]:
        """The angles of items that have only some channels, the others being zero.

        Args:
            x: the values.
            channels: which channels they are.
        """
        if list(channels) == list(range(self.frequencies.shape[0])):
            return x @ self.frequencies
        chosen = torch.as_tensor(channels, device=x.device)
        return x @ self.frequencies.index_select(0, chosen)

    def lift(self, angles: Float[Tensor, "... frequencies"]) -> Float[Tensor, "... width"]:
        """Sines and cosines of angles."""
        features: Tensor = _SineCosine.apply(angles)  # type: ignore[no-untyped-call]
        return features


class _SineCosine(Function):
    """Sines and cosines side by side, written to their place at once."""

    @staticmethod
    def forward(ctx: Any, angles: Tensor) -> Tensor:
        half = angles.shape[-1]
        features = angles.new_empty(*angles.shape[:-1], 2 * half)
        torch.sin(angles, out=features[..., :half])
        torch.cos(angles, out=features[..., half:])
        ctx.save_for_backward(features)
        return features

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (features,) = ctx.saved_tensors
        (sine, cosine), (d_sine, d_cosine) = features.chunk(2, -1), grad.chunk(2, -1)
        d_angles: Tensor = d_sine * cosine - d_cosine * sine
        return d_angles
