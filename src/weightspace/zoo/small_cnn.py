"""The networks of the small CNN zoo, one at a time and many at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.errors import ModelError

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "silu": F.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "leaky_relu": F.leaky_relu,
    "none": lambda values: values,
}
"""The activation functions of convolutional networks in zoos."""

WIDTH, LAYERS = 16, 3

SMALLEST_SIDE = 15
"""Of images: the last convolution then has one place."""


class SmallCnn(nn.Module):
    """Three convolutions of 16 filters, the mean over all places, a linear layer.

    Unterthiner et al. 2020, "Predicting neural network accuracy from weights": filters of
    3 x 3 with stride 2, 4,970 parameters with one channel and ten classes. It takes images
    ``[batch, channels, height, width]`` of any size from 15 x 15.

    Args:
        activation: one of :data:`ACTIVATIONS`.
        channels: of the images.
        classes: the number of logits.

    >>> sum(p.numel() for p in SmallCnn("relu").parameters())
    4970
    """

    def __init__(self, activation: str, *, channels: int = 1, classes: int = 10) -> None:
        super().__init__()
        self.activation = known_activation(activation)
        sizes = [channels, *[WIDTH] * LAYERS]
        self.convs = nn.ModuleList(
            nn.Conv2d(sizes[i], sizes[i + 1], 3, stride=2) for i in range(LAYERS)
        )
        self.head = nn.Linear(WIDTH, classes)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> SmallCnn:
        """Build the network that a row of a zoo describes, with other weights."""
        return cls(row["activation"], channels=row["channels"], classes=row["classes"])

    def forward(
        self, images: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch classes"]:
        """Compute the logits."""
        values = images
        for conv in self.convs:
            values = self.activation(conv(values))
        logits: Tensor = self.head(values.mean((2, 3)))
        return logits


class SmallCnnStack:
    """Runs many small CNNs as one network of grouped convolutions, with dropout in training.

    Values lie channels last in memory, those of all networks side by side: on a CPU twice as
    fast as ``torch.func.vmap`` over the module, and six times as fast as unfolding images for
    a batched product. Dropout takes whole channels, after every activation.

    Args:
        activation: of all the networks.
        dropout: the probability of losing a channel, for each network.
        seed: of the dropout.
    """

    def __init__(self, activation: str, *, dropout: Float[Tensor, " networks"], seed: int) -> None:
        self._activation = known_activation(activation)
        self._kept = 1 - dropout
        self._drops = bool((dropout > 0).any())
        self._generator = torch.Generator().manual_seed(seed)

    def __call__(
        self,
        state: Mapping[str, Tensor],
        images: Float[Tensor, "networks batch channels height width"],
        training: bool,
    ) -> Float[Tensor, "networks batch classes"]:
        """Compute the logits of each network on its images."""
        networks = images.shape[0]
        # In memory the order is batch, height, width, networks, channels.
        values = images.permute(1, 3, 4, 0, 2).flatten(3).permute(0, 3, 1, 2)
        for layer in range(LAYERS):
            weight, bias = state[f"convs.{layer}.weight"], state[f"convs.{layer}.bias"]
            values = F.conv2d(values, weight.flatten(0, 1), bias.flatten(), 2, groups=networks)
            values = self._activation(values)
            if training and self._drops:
                values = values * self._mask(values)
        features = values.mean((2, 3)).view(-1, networks, WIDTH).transpose(0, 1)
        return torch.baddbmm(state["head.bias"][:, None], features, state["head.weight"].mT)

    def _mask(self, values: Tensor) -> Tensor:
        drawn = torch.rand(values.shape[:2], generator=self._generator)
        kept = self._kept.repeat_interleave(WIDTH)
        return ((drawn < kept) / kept)[:, :, None, None]


def known_activation(name: str) -> Callable[[Tensor], Tensor]:
    """Find an activation function by its name.

    Raises:
        ModelError: it is not one of :data:`ACTIVATIONS`.
    """
    if name not in ACTIVATIONS:
        raise ModelError("activation", expected=f"one of {', '.join(ACTIVATIONS)}", found=name)
    return ACTIVATIONS[name]
