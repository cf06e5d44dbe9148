"""The block of the small transformers in zoos."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.errors import ModelError, require_between
from weightspace.zoo.small_cnn import known_activation

WIDTHS, HEADS, BLOCKS, EXPANSIONS = (16, 24, 32, 48), (1, 2, 4), (1, 2, 3), (1, 2, 4)
TRANSFORMER_ACTIVATIONS = ("gelu", "relu", "silu")

LARGEST_SHAPES = 200
"""Different shapes that may be asked for, of the 324 that there are."""


@dataclass(frozen=True)
class TransformerShape:
    """The structure of a small transformer.

    Args:
        width: features of a token.
        heads: of attention; they divide the width.
        blocks: how many follow each other.
        expansion: the hidden layer's size over the width.
        activation: of the hidden layer.

    Raises:
        ModelError: the heads do not divide the width, or a number is not positive.
    """

    width: int
    heads: int
    blocks: int
    expansion: int
    activation: str

    def __post_init__(self) -> None:
        for name in ("width", "heads", "blocks", "expansion"):
            require_between(name, getattr(self, name), 1, 100_000)
        known_activation(self.activation)
        if self.width % self.heads:
            raise ModelError(
                "heads", expected=f"a divisor of the width {self.width}", found=str(self.heads)
            )

    @classmethod
    def draw(cls, random: np.random.Generator) -> TransformerShape:
        """Draw one, every property uniform.

        >>> TransformerShape.draw(np.random.default_rng(0)).blocks
        2
        """
        return cls(
            int(random.choice(WIDTHS)),
            int(random.choice(HEADS)),
            int(random.choice(BLOCKS)),
            int(random.choice(EXPANSIONS)),
            str(random.choice(TRANSFORMER_ACTIVATIONS)),
        )

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> TransformerShape:
        """Read it from the columns of a zoo."""
        return cls(*(row[name] for name in cls.__dataclass_fields__))

    def columns(self) -> dict[str, Any]:
        """The columns that say it."""
        return asdict(self)


@lru_cache(maxsize=8)
def draw_shapes(seed: int, count: int) -> tuple[TransformerShape, ...]:
    """Draw different shapes.

    Args:
        seed: of the draws.
        count: at most :data:`LARGEST_SHAPES`.

    >>> len(set(draw_shapes(0, 20)))
    20
    """
    require_between("shapes", count, 1, LARGEST_SHAPES)
    random = np.random.default_rng(seed)
    found: dict[TransformerShape, None] = {}
    while len(found) < count:
        found.setdefault(TransformerShape.draw(random))
    return tuple(found)


class Attention(nn.Module):
    """Multi-head self-attention with a matrix for each of queries, keys, values and output.

    Args:
        width: features of a token.
        heads: they divide the width.
        causal: whether tokens see only those before them.
    """

    def __init__(self, width: int, heads: int, *, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(
        self, tokens: Float[Tensor, "batch time width"]
    ) -> Float[Tensor, "batch time width"]:
        """Mix the tokens."""
        query, key, value = (
            torch.unflatten(layer(tokens), -1, (self.heads, -1)).transpose(-2, -3)
            for layer in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
        if self.causal:
            time = tokens.shape[-2]
            hidden = torch.ones(time, time, dtype=torch.bool, device=tokens.device).triu(1)
            scores = scores.masked_fill(hidden, -torch.inf)
        mixed = (scores.softmax(-1) @ value).transpose(-2, -3).flatten(-2)
        result: Tensor = self.out(mixed)
        return result


class Block(nn.Module):
    """Attention and a multilayer perceptron, each after a norm and beside a residual.

    Args:
        shape: the structure.
        causal: whether tokens see only those before them.
    """

    def __init__(self, shape: TransformerShape, *, causal: bool) -> None:
        super().__init__()
        width, hidden = shape.width, shape.width * shape.expansion
        self.activation = known_activation(shape.activation)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, shape.heads, causal=causal)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(
        self, tokens: Float[Tensor, "batch time width"]
    ) -> Float[Tensor, "batch time width"]:
        """Change the tokens."""
        tokens = tokens + self.attention(self.norm1(tokens))
        result: Tensor = tokens + self.down(self.activation(self.up(self.norm2(tokens))))
        return result


def scale_matrices(network: nn.Module, scale: float) -> nn.Module:
    """Multiply all parameters but vectors in place; norms and biases stay."""
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.ndim > 1:
                parameter.mul_(scale)
    return network
