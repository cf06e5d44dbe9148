"""Trunks that keep one vector of a network, from which no weight can be told from another."""

from __future__ import annotations

from collections.abc import Mapping

from weightspace.errors import ModelError
from weightspace.models.flat_mlp import VectorReadout
from weightspace.models.requirements import Requirements
from weightspace.models.trunk import ChangesHead, Option, Readout, Trunk


class PredictOnly(Trunk):
    """A trunk whose state is a vector of each network, ``[networks, width]``.

    Args:
        requirements: the networks it reads.
        name: the model's name among :data:`weightspace.models.MODELS`.
        width: the length of the vector.
        options: the keyword arguments that make the trunk again.
    """

    def __init__(
        self, requirements: Requirements, *, name: str, width: int, options: Mapping[str, Option]
    ) -> None:
        super().__init__(requirements)
        self.name, self.width = name, width
        self._options = dict(options)

    @property
    def options(self) -> dict[str, Option]:
        """The keyword arguments that make this trunk again."""
        return dict(self._options)

    def make_readout(self) -> Readout:
        """The vector itself."""
        return VectorReadout(self.width)

    def make_changes(self) -> ChangesHead:
        """Refuse: one vector does not say which neuron is which.

        Raises:
            ModelError: always.
        """
        raise ModelError(
            f"editing with {self.name}",
            expected="a model that keeps a state of each neuron or weight",
            found="one vector of each network",
            hint="Use ng-gnn, ng-t or dws; among the baselines flat-mlp, inr2vec or "
            "neuron-transformer.",
        )
