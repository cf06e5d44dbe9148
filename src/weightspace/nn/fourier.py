"""Gaussian random Fourier features of weights and biases, and a linear map of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import Function

from weightspace.nn.cached_parts import cached_parts
from weightspace.nn.first_derivative import first_derivative


class RandomFrequencies(nn.Module):
    """Frequencies ``B``, normal of deviation ``sigma`` and not trained.

    Rahimi and Recht 2007.

    Args:
        channels: values of one item.
        frequencies: how many frequencies.
        sigma: their deviation.
    """

    frequencies: Tensor

    def __init__(self, channels: int, *, frequencies: int = 128, sigma: float = 3.0) -> None:
        super().__init__()
        self.register_buffer("frequencies", sigma * torch.randn(channels, frequencies))

    def of(self, channels: Sequence[int] | None) -> Float[Tensor, "some frequencies"]:
        """The frequencies of items that have only some channels, the others being zero.

        Args:
            channels: which channels they are, if not all.
        """
        found = self.frequencies
        if channels is None or list(channels) == list(range(len(found))):
            return found
        return found[torch.as_tensor(channels, device=found.device)]


class FourierLinear(RandomFrequencies):
    """A linear map of random Fourier features of values.

    Rahimi and Recht 2007, used by Kofinas et al. 2024 for weights and biases:
    ``A [sin(B x), cos(B x)] + a`` with ``B`` normal of deviation ``sigma``, not trained. The
    frequencies are in radians: with a factor of 2 pi as in Tancik et al. 2020, deviation 3
    would make neighbouring values of normalised weights look unrelated.

    Args:
        channels: values of one item.
        width: channels of the result.
        frequencies: how many frequencies; there are twice as many features.
        sigma: the deviation of the frequencies.

    >>> FourierLinear(1, 32, frequencies=128, sigma=3.0)(torch.zeros(5, 1)).shape
    torch.Size([5, 32])
    """

    def __init__(
        self, channels: int, width: int, *, frequencies: int = 128, sigma: float = 3.0
    ) -> None:
        super().__init__(channels, frequencies=frequencies, sigma=sigma)
        self.linear = nn.Linear(2 * frequencies, width)

    def forward(
        self, x: Float[Tensor, "items some"], channels: Sequence[int] | None = None
    ) -> Float[Tensor, "items width"]:
        """Map values.

        Args:
            x: the values.
            channels: which channels they are, if not all; the others are zero.
        """
        result: Tensor = _FourierLinear.apply(  # type: ignore[no-untyped-call]
            x, self.of(channels), self.linear.weight, self.linear.bias
        )
        return result


class _FourierLinear(Function):
    """Over pieces that fit the cache: the features are never written whole, but found again.

    Sines and cosines have buffers of their own: written side by side, with a stride, they take
    ten times as long.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, frequencies: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, frequencies, weight)
        result = x.new_empty(len(x), len(weight))
        for_sine, for_cosine = weight.chunk(2, dim=1)
        for part, (sine, cosine) in _features(x, frequencies):
            torch.addmm(bias, sine, for_sine.T, out=result[part])
            result[part].addmm_(cosine, for_cosine.T)
        return result

    @staticmethod
    @first_derivative
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, Tensor, Tensor]:
        x, frequencies, weight = ctx.saved_tensors
        d_x = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        d_weight = torch.zeros_like(weight)
        for_sine, for_cosine = weight.chunk(2, dim=1)
        d_sine, d_cosine = d_weight.chunk(2, dim=1)
        for part, (sine, cosine) in _features(x, frequencies):
            given = grad[part]
            d_sine.addmm_(given.T, sine)
            d_cosine.addmm_(given.T, cosine)
            if d_x is not None:
                d_angles = (given @ for_sine) * cosine - (given @ for_cosine) * sine
                d_x[part] = d_angles @ frequencies.T
        return d_x, None, d_weight, grad.sum(0)


def _features(x: Tensor, frequencies: Tensor) -> Iterator[tuple[slice, tuple[Tensor, Tensor]]]:
    """Sines and cosines of ranges of items, in buffers that are used again."""
    count = frequencies.shape[1]
    parts = cached_parts(len(x), count) if len(x) else []
    buffers = [x.new_empty(parts[0].stop, count) for _ in range(3)] if parts else []
    for part in parts:
        angles, sine, cosine = (buffer[: part.stop - part.start] for buffer in buffers)
        torch.mm(x[part], frequencies, out=angles)
        yield part, (torch.sin(angles, out=sine), torch.cos(angles, out=cosine))
