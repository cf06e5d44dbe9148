"""Small vision transformers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.errors import ModelError
from weightspace.zoo.transformer_block import Block, TransformerShape


class SmallVit(nn.Module):
    """Patches as tokens, some blocks, the mean of the tokens, a linear layer.

    Dosovitskiy et al. 2021, with the mean of all tokens in place of a class token. It takes
    images ``[batch, channels, height, width]`` with values in [-1, 1].

    Args:
        shape: width, heads, blocks, expansion and activation.
        image: channels, height and width.
        patch: the side of a patch, a divisor of height and width.
        classes: the number of logits.

    Raises:
        ModelError: patches do not fill the image.

    >>> shape = TransformerShape(16, 2, 1, 2, "gelu")
    >>> SmallVit(shape, image=(1, 28, 28), patch=7)(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        shape: TransformerShape,
        *,
        image: tuple[int, int, int],
        patch: int,
        classes: int = 10,
    ) -> None:
        super().__init__()
        channels, height, width = image
        if patch < 1 or height % patch or width % patch:
            raise ModelError(
                "patch", expected=f"a divisor of {height} and {width}", found=str(patch)
            )
        tokens = height // patch * (width // patch)
        self.embed = nn.Conv2d(channels, shape.width, patch, stride=patch)
        self.positions = nn.Parameter(0.02 * torch.randn(tokens, shape.width))
        self.blocks = nn.ModuleList(Block(shape, causal=False) for _ in range(shape.blocks))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, classes)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> SmallVit:
        """Build the network that a row of a zoo describes, with other weights."""
        shape = TransformerShape.from_row(row)
        image = (row["channels"], row["image_height"], row["image_width"])
        return cls(shape, image=image, patch=row["patch"], classes=row["classes"])

    def forward(
        self, images: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch classes"]:
        """Compute the logits."""
        tokens = self.embed(images).flatten(2).transpose(1, 2) + self.positions
        for block in self.blocks:
            tokens = block(tokens)
        logits: Tensor = self.head(self.norm(tokens).mean(1))
        return logits
