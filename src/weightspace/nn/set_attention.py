"""Self-attention between the neurons of an axis."""

from __future__ import annotations

import math

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

HEADS = 4


class SetAttention(nn.Module):
    """Each neuron attends over all neurons of its axis.

    Navon et al. 2023, section 5, where set layers may be self-attention (Lee et al. 2019).

    Args:
        inputs: channels of a neuron.
        width: channels of queries, keys and values.
        outputs: channels of the result.
    """

    def __init__(self, inputs: int, width: int, outputs: int) -> None:
        super().__init__()
        self.heads = HEADS if width % HEADS == 0 else 1
        self.project = nn.Linear(inputs, 3 * width)
        self.out = nn.Linear(width, outputs, bias=False)
        nn.init.normal_(self.out.weight, std=math.sqrt(0.5 / width))

    def forward(self, values: Float[Tensor, "batch n inputs"]) -> Float[Tensor, "batch n outputs"]:
        """Attend."""
        projected: Tensor = self.project(values)
        parts = projected.view(*values.shape[:-1], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        found = F.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        result: Tensor = self.out(found.transpose(1, 2).flatten(2))
        return result
