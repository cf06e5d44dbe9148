"""Augmentation by symmetry: the same functions, their neurons in another order."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from weightspace.graph import GraphSpec, Reordering, State


@dataclass(frozen=True)
class ReorderingAugmentation:
    """Random orders of the neurons, drawn anew for every network of a batch.

    Navon et al. 2023, section 7, "MLP + permutation augmentation": it teaches a model that is
    not equivariant what others are by construction, to which it does nothing.

    Args:
        spec: any structure; its derived symmetry says which neurons may be exchanged.

    >>> from weightspace.graph import chain_spec
    >>> augment = ReorderingAugmentation(chain_spec([1, 3, 1], bias=False))
    >>> weight = torch.tensor([[[1.0], [2.0], [3.0]]])
    >>> state = {"0.weight": weight, "1.weight": weight.transpose(1, 2)}
    >>> new = augment(state, torch.Generator().manual_seed(0))
    >>> torch.equal(new["0.weight"], new["1.weight"].transpose(1, 2))
    True
    """

    spec: GraphSpec

    def __call__(self, stacked: State, generator: torch.Generator) -> dict[str, Tensor]:
        """Reorder every network of a stacked state; the tensors given are left as they are.

        Args:
            stacked: each tensor of the state dict, ``[networks, *shape]``.
            generator: the source of randomness, on the tensors' device.
        """
        first = next(iter(stacked.values()))
        drawn = Reordering.sample(
            self.spec, len(first), generator=generator, device=generator.device
        )
        return drawn.act_stacked(stacked)
