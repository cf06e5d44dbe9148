"""The fitted normalisation as a module, so that a saved model carries it."""

from __future__ import annotations

from torch import Tensor, nn

from weightspace.graph import GraphSpec, NeuralGraph, Normalisation


class Normaliser(nn.Module):
    """Applies a :class:`~weightspace.graph.Normalisation` whose statistics are buffers.

    Args:
        normalisation: the fitted statistics.
    """

    def __init__(self, normalisation: Normalisation) -> None:
        super().__init__()
        self.spec = normalisation.spec
        self._keys = tuple(normalisation.mean)
        for place, key in enumerate(self._keys):
            self.register_buffer(f"mean_{place}", normalisation.mean[key])
            self.register_buffer(f"std_{place}", normalisation.std[key])

    @classmethod
    def empty(cls, spec: GraphSpec) -> Normaliser:
        """Make one of a spec's shape, for a state dict to be loaded into."""
        return cls(Normalisation.identity(spec))

    @property
    def normalisation(self) -> Normalisation:
        """The statistics as they are now."""
        return Normalisation(self.spec, self._named("mean"), self._named("std"))

    def _named(self, what: str) -> dict[str, Tensor]:
        return {key: self.get_buffer(f"{what}_{place}") for place, key in enumerate(self._keys)}

    def forward(self, graph: NeuralGraph) -> NeuralGraph:
        """Normalise a graph."""
        return self.normalisation(graph)
