"""Small transformers that predict the next character of a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from weightspace.zoo.transformer_block import Block, TransformerShape


class CharTransformer(nn.Module):
    """A causal transformer on characters, with learned positions.

    Args:
        shape: width, heads, blocks, expansion and activation.
        characters: how many different ones.
        context: the largest number of characters it reads.

    >>> shape = TransformerShape(16, 2, 1, 2, "gelu")
    >>> model = CharTransformer(shape, characters=30, context=8)
    >>> model(torch.zeros(2, 8, dtype=torch.long)).shape
    torch.Size([2, 8, 30])
    """

    def __init__(self, shape: TransformerShape, *, characters: int, context: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(characters, shape.width)
        self.positions = nn.Parameter(0.02 * torch.randn(context, shape.width))
        self.blocks = nn.ModuleList(Block(shape, causal=True) for _ in range(shape.blocks))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, characters)
        nn.init.normal_(self.embed.weight, std=0.1)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> CharTransformer:
        """Build the network that a row of a zoo describes, with other weights."""
        shape = TransformerShape.from_row(row)
        return cls(shape, characters=row["characters"], context=row["context"])

    def forward(
        self, characters: Int[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time characters"]:
        """Compute the logits of each next character."""
        tokens = self.embed(characters) + self.positions[: characters.shape[1]]
        for block in self.blocks:
            tokens = block(tokens)
        logits: Tensor = self.head(self.norm(tokens))
        return logits
