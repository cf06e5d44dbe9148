"""Metanetworks that predict: a vector for each network."""

from __future__ import annotations

from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from weightspace.graph import Batch
from weightspace.models.metanetwork import Metanetwork, own_precision
from weightspace.models.option_limits import checked_options
from weightspace.models.trunk import Trunk
from weightspace.nn.networks import Executor


class Predictor(Metanetwork):
    """Classify or rank networks: an output vector each, unchanged by their symmetry.

    Args:
        trunk: one paper's model.
        outputs: the length of the output vector.
        canonical: whether networks are first brought to canonical signs.

    Raises:
        ModelError: ``outputs`` is no whole number of at least 1.

    >>> from weightspace.graph import chain_spec
    >>> from weightspace.models import NGGNN, Requirements
    >>> trunk = NGGNN(Requirements.of([chain_spec([2, 4, 1], activations="tanh")]))
    >>> Predictor(trunk, outputs=10).outputs
    10
    """

    def __init__(self, trunk: Trunk, *, outputs: int, canonical: bool = False) -> None:
        checked_options({"outputs": outputs})
        super().__init__(trunk, canonical=canonical)
        self.outputs = outputs
        self.readout = trunk.make_readout()
        self.last = nn.Linear(self.readout.width, outputs)

    def embed(
        self, batch: Batch, *, executor: Executor | Literal["auto"] = "auto"
    ) -> Float[Tensor, "batch d"]:
        """Read the networks: a vector each, before the last linear map.

        Args:
            batch: the networks.
            executor: see :meth:`~weightspace.models.Metanetwork.read`.
        """
        with own_precision(self.last.weight.device):
            read = self.read(batch, executor=executor)
            embedding: Tensor = self.readout(read.networks, read.state)
        return embedding

    def head(self, embedding: Float[Tensor, "batch d"]) -> Float[Tensor, "batch outputs"]:
        """Map embeddings to outputs."""
        result: Tensor = self.last(embedding)
        return result

    def forward(
        self, batch: Batch, *, executor: Executor | Literal["auto"] = "auto"
    ) -> Float[Tensor, "batch outputs"]:
        """Read the networks: an output vector each. See :meth:`embed`."""
        return self.head(self.embed(batch, executor=executor))
