"""Convolutional networks of random depth, widths, kernels, activations and residuals."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.errors import ModelError
from weightspace.zoo.small_cnn import known_activation

WIDTHS = (4, 8, 16, 32, 64)
KERNELS = (3, 5, 7)
WILD_ACTIVATIONS = ("relu", "gelu", "tanh", "sigmoid", "leaky_relu", "none")
DEPTHS = (2, 8)
HALVING = 3
"""The first layers have stride 2, so that deep networks cost little more than shallow ones."""


@dataclass(frozen=True)
class WildArchitecture:
    """The structure of a network of the CNN Wild Park (Kofinas et al. 2024, appendix).

    Args:
        widths: the channels after each convolution.
        kernels: odd kernel sizes.
        activations: see :data:`weightspace.zoo.small_cnn.ACTIVATIONS`.
        residuals: for each layer the earlier one whose values are added after the activation,
            over the channels that both have, or -1.

    Raises:
        ModelError: lengths differ, or a residual does not come from an earlier layer.
    """

    widths: tuple[int, ...]
    kernels: tuple[int, ...]
    activations: tuple[str, ...]
    residuals: tuple[int, ...]

    def __post_init__(self) -> None:
        lengths = {len(self.kernels), len(self.activations), len(self.residuals)}
        if lengths != {len(self.widths)} or not self.widths:
            raise ModelError("architecture", expected="one entry a layer", found=str(self))
        for layer, earlier in enumerate(self.residuals):
            if not -1 <= earlier < layer:
                raise ModelError(
                    f"residual into layer {layer}",
                    expected=f"-1, or a layer below {layer}",
                    found=str(earlier),
                )
        for activation in self.activations:
            known_activation(activation)

    @classmethod
    def draw(cls, random: np.random.Generator) -> WildArchitecture:
        """Draw one: every property uniform, half of the layers with a residual.

        >>> drawn = WildArchitecture.draw(np.random.default_rng(1))
        >>> len(drawn.widths) == len(drawn.kernels), set(drawn.kernels) <= set(KERNELS)
        (True, True)
        """
        layers = int(random.integers(DEPTHS[0], DEPTHS[1] + 1))
        residuals = [
            int(random.integers(layer)) if layer and random.random() < 0.5 else -1
            for layer in range(layers)
        ]
        return cls(
            tuple(random.choice(WIDTHS, layers).tolist()),
            tuple(random.choice(KERNELS, layers).tolist()),
            tuple(random.choice(WILD_ACTIVATIONS, layers).tolist()),
            tuple(residuals),
        )

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> WildArchitecture:
        """Read it from the columns of a zoo."""
        return cls(
            *(tuple(row[name]) for name in ("widths", "kernels", "activations", "residuals"))
        )

    def columns(self) -> dict[str, Any]:
        """The columns that say it."""
        return {"layers": len(self.widths), **{k: list(v) for k, v in asdict(self).items()}}


class WildCnn(nn.Module):
    """A network of the wild park: convolutions, the mean over all places, a linear layer.

    ``h_l = act_l(conv_l(h_{l-1})) + h_r`` over the channels that ``h_l`` and ``h_r`` share; an
    earlier layer of higher resolution is averaged down first. It takes images
    ``[batch, channels, height, width]`` with values in [-1, 1].

    Args:
        architecture: the structure.
        channels: of the images.
        classes: the number of logits.
    """

    def __init__(
        self, architecture: WildArchitecture, *, channels: int = 1, classes: int = 10
    ) -> None:
        super().__init__()
        self.architecture = architecture
        sizes = itertools.pairwise([channels, *architecture.widths])
        self.convs = nn.ModuleList(
            nn.Conv2d(source, target, size, stride=2 if i < HALVING else 1, padding=size // 2)
            for i, ((source, target), size) in enumerate(
                zip(sizes, architecture.kernels, strict=True)
            )
        )
        self.head = nn.Linear(architecture.widths[-1], classes)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> WildCnn:
        """Build the network that a row of a zoo describes, with other weights."""
        architecture = WildArchitecture.from_row(row)
        return cls(architecture, channels=row["channels"], classes=row["classes"])

    def forward(
        self, images: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch classes"]:
        """Compute the logits."""
        values = images
        outputs: list[Tensor] = []
        layers = zip(
            self.convs, self.architecture.activations, self.architecture.residuals, strict=True
        )
        for conv, activation, earlier in layers:
            values = known_activation(activation)(conv(values))
            if earlier >= 0:
                values = _joined(values, outputs[earlier])
            outputs.append(values)
        logits: Tensor = self.head(values.mean((2, 3)))
        return logits


def _joined(values: Tensor, earlier: Tensor) -> Tensor:
    """Add earlier values over the channels that both have."""
    height, width = values.shape[2:]
    if earlier.shape[2:] != (height, width):
        earlier = F.adaptive_avg_pool2d(earlier, (height, width))
    shared = min(values.shape[1], earlier.shape[1])
    added = values[:, :shared] + earlier[:, :shared]
    if shared == values.shape[1]:
        return added
    return torch.cat([added, values[:, shared:]], 1)
