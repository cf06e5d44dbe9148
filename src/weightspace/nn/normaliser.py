"""The fitted normalisation as a module, so that a saved model carries it."""

from __future__ import annotations

import logging

from torch import Tensor, nn

from weightspace.errors import StateError
from weightspace.graph import MixedGraph, Normalisation

_LOG = logging.getLogger(__name__)


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

        Kinds of layers that no training network has keep their values as they are, where the
        model was made for networks of several specs.

        Raises:
            DataError: a weight is not finite.
            StateError: the networks have other layers than this was made for.
        """
        fitted = Normalisation.fit(batch, by_kind=self.spec is None)
        known = set(fitted.mean) <= set(self._keys)
        if not known or (self.spec is not None and len(fitted.mean) < len(self._keys)):
            raise StateError(
                "normalisation",
                expected=f"networks with the layers {', '.join(self._keys)}",
                found=", ".join(fitted.mean),
                hint="Fit it on the networks that the model was made for.",
            )
        unseen = [key for key in self._keys if key not in fitted.mean]
        if unseen:
            _LOG.warning("no training network has layers of the kinds %s", ", ".join(unseen))
        for place, key in enumerate(self._keys):
            if key in fitted.mean:
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
