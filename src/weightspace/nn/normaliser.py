"""The fitted normalisation as a module, so that a saved model carries it."""

from __future__ import annotations

from torch import Tensor, nn

from weightspace.errors import StateError
from weightspace.graph import MixedGraph, Normalisation


class Normaliser(nn.Module):
    """Applies a :class:`~weightspace.graph.Normalisation` whose statistics are buffers.

    Args:
        normalisation: the statistics.
    """

    def __init__(self, normalisation: Normalisation) -> None:
        super().__init__()
        self.spec = normalisation.spec
        self._keys = tuple(normalisation.mean)
        for place, key in enumerate(self._keys):
            self.register_buffer(f"mean_{place}", normalisation.mean[key])
            self.register_buffer(f"std_{place}", normalisation.std[key])

    def fit(self, batch: MixedGraph) -> None:
        """Take the statistics of a batch that holds the whole training set.

        Raises:
            DataError: a weight is not finite.
            StateError: the networks have other layers than this was made for.
        """
        fitted = Normalisation.fit(batch)
        if tuple(fitted.mean) != self._keys:
            raise StateError(
                "normalisation",
                expected=f"networks with the layers {', '.join(self._keys)}",
                found=", ".join(fitted.mean),
                hint="Fit it on the networks that the model was made for.",
            )
        for place, key in enumerate(self._keys):
            self.get_buffer(f"mean_{place}").copy_(fitted.mean[key])
            self.get_buffer(f"std_{place}").copy_(fitted.std[key])

    @property
    def normalisation(self) -> Normalisation:
        """The statistics as they are now."""
        return Normalisation(self.spec, self._named("mean"), self._named("std"))

    def _named(self, what: str) -> dict[str, Tensor]:
        return {key: self.get_buffer(f"{what}_{place}") for place, key in enumerate(self._keys)}

    def forward(self, batch: MixedGraph) -> MixedGraph:
        """Normalise a batch."""
        return batch.map_parts(self.normalisation)
