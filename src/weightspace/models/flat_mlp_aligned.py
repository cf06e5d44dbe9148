"""The flat baseline on networks that are first aligned to one of them."""

from __future__ import annotations

import torch
from torch import Tensor

from weightspace.graph import MixedGraph, NeuralGraph, Reordering, match_stacked
from weightspace.models.flat_mlp import FlatMLP
from weightspace.models.option_limits import checked_options
from weightspace.models.reordered import reordered_batch
from weightspace.models.requirements import Requirements
from weightspace.models.trunk import Prepared

CHUNK = 512
"""Networks that are aligned together."""


class FlatMLPAligned(FlatMLP):
    """An MLP on all weights as one vector, of networks aligned to one reference.

    The baseline "MLP + alignment" of Navon et al. 2023, table 1: the neurons of every network
    are brought to the order that is closest to the first training network's, see
    :func:`weightspace.graph.match_weights` (Ainsworth et al. 2023). The reference is a buffer,
    so a saved model aligns as it was trained. Edits come back in the networks' own order.
    Weight matching ends in a local optimum, so the result is only nearly invariant; networks
    that it aligns well give the same output in every order of their neurons. Where activations
    are odd, signs differ, too: ``canonical=True`` settles them first.

    Args:
        requirements: as for :class:`~weightspace.models.FlatMLP`.
        width: neurons of each hidden layer.
        layers: hidden layers.
        dropout: rate after each hidden layer.
        restarts: of the matching.

    Raises:
        ModelError: the training networks differ in architecture.

    >>> from weightspace.graph import chain_spec
    >>> from weightspace.models import Requirements
    >>> FlatMLPAligned(Requirements.of([chain_spec([2, 4, 1])]), restarts=2).options["restarts"]
    2
    """

    def __init__(
        self,
        requirements: Requirements,
        *,
        width: int = 256,
        layers: int = 3,
        dropout: float = 0.2,
        restarts: int = 1,
    ) -> None:
        super().__init__(requirements, width=width, layers=layers, dropout=dropout)
        self._options |= checked_options({"restarts": restarts})
        self.restarts = restarts
        assert requirements.spec is not None, "the flat MLP has checked it"
        self._names = [parameter.name for parameter in requirements.spec.parameters]
        for place, parameter in enumerate(requirements.spec.parameters):
            self.register_buffer(f"reference_{place}", torch.zeros(parameter.shape))

    @property
    def reference(self) -> dict[str, Tensor]:
        """The parameters of the network that all others are aligned to; zeros before fitting."""
        return {name: self.get_buffer(f"reference_{i}") for i, name in enumerate(self._names)}

    def fit(self, batch: MixedGraph) -> None:
        """Take the first training network as the reference."""
        first = batch.parts[0][[batch.order[0]]].state_dict()
        for name, buffer in self.reference.items():
            buffer.copy_(first[name])

    def prepare(self, batch: MixedGraph) -> Prepared:
        """Align the networks to the reference."""
        return reordered_batch(batch, [self._align(part) for part in batch.parts])

    def _align(self, graph: NeuralGraph) -> Reordering:
        """The reordering of each network; the search has no gradient, acting with it has."""
        with torch.no_grad():
            left_out = {name: tensor[0] for name, tensor in graph.left_out.items()}
            fixed = {**self.reference, **left_out}
            found = [
                match_stacked(graph.spec, fixed, part.stacked_state(), restarts=self.restarts)
                for part in (graph[i : i + CHUNK] for i in range(0, graph.batch_size, CHUNK))
            ]
        permutations = [match.reordering.permutations for match in found]
        return Reordering(
            graph.spec,
            {name: torch.cat([p[name] for p in permutations]) for name in permutations[0]},
        )
