"""The flat baseline that is shown every order of the neurons: augmentation by permutations."""

from __future__ import annotations

from weightspace.graph import MixedGraph, Reordering
from weightspace.models.flat_mlp import FlatMLP
from weightspace.models.reordered import reordered_batch
from weightspace.models.trunk import Prepared


class FlatMLPAugmented(FlatMLP):
    """An MLP on all weights as one vector, trained on networks in random orders of neurons.

    The baseline "MLP + permutation augmentation" of Navon et al. 2023, table 1. In training
    mode every network's neurons are reordered by an element of its own, uniform in the group
    of the spec and drawn from torch's generator; in evaluation mode networks are read as they
    are. Edits come back in the networks' own order. The augmentation alone, for use with any
    model, is :class:`weightspace.tasks.reordering.ReorderingAugmentation`.

    Args:
        requirements: as for :class:`~weightspace.models.FlatMLP`.
        width: neurons of each hidden layer.
        layers: hidden layers.
        dropout: rate after each hidden layer.

    Raises:
        ModelError: the training networks differ in architecture.

    >>> from weightspace.graph import chain_spec
    >>> from weightspace.models import Requirements
    >>> FlatMLPAugmented(Requirements.of([chain_spec([2, 4, 1])]), width=8).width
    8
    """

    def prepare(self, batch: MixedGraph) -> Prepared:
        """Reorder the neurons at random in training mode."""
        if not self.training:
            return super().prepare(batch)
        drawn = [Reordering.sample(p.spec, p.batch_size, device=p.device) for p in batch.parts]
        return reordered_batch(batch, drawn)
