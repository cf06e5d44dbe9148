"""The baseline that knows nothing of symmetry: an MLP on the flattened weights."""

from __future__ import annotations

import itertools

import torch
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.errors import ModelError
from weightspace.graph import NeuralGraph
from weightspace.models.metanetwork import Metanetwork, Requirements


class FlatMLP(Metanetwork):
    """An MLP on all weights and biases as one vector.

    The baseline "MLP" of Navon et al. 2023, table 1, here with LayerNorm and dropout so that
    it has the care the other models have. Reads networks of one architecture only.

    Args:
        requirements: the networks it reads.
        outputs: the length of the output vector.
        width: neurons of each hidden layer.
        layers: hidden layers.
        dropout: rate after each hidden layer.
        canonical: whether networks are first brought to canonical signs.

    Raises:
        ModelError: the training networks differ in architecture.

    >>> from weightspace.graph import chain_spec
    >>> FlatMLP(Requirements.of([chain_spec([2, 4, 1])]), outputs=10).options["layers"]
    3
    """

    def __init__(
        self,
        requirements: Requirements,
        *,
        outputs: int,
        width: int = 256,
        layers: int = 3,
        dropout: float = 0.2,
        canonical: bool = False,
    ) -> None:
        super().__init__(requirements, outputs=outputs, canonical=canonical)
        if not requirements.values:
            raise ModelError(
                "flat MLP",
                expected="training networks of one architecture",
                found="several",
                hint="Use a model that reads graphs, such as ng-gnn.",
            )
        self._options: dict[str, int | float | bool] = {
            "width": width,
            "layers": layers,
            "dropout": dropout,
            "canonical": canonical,
        }
        sizes = [requirements.values, *[width] * layers]
        hidden = [
            nn.Sequential(nn.Linear(a, b), nn.LayerNorm(b), nn.ReLU(), nn.Dropout(dropout))
            for a, b in itertools.pairwise(sizes)
        ]
        self.hidden = nn.Sequential(*hidden)
        self.last = nn.Linear(width, outputs)

    @property
    def options(self) -> dict[str, int | float | bool]:
        """The keyword arguments that make this model again."""
        return dict(self._options)

    def embed(self, graph: NeuralGraph) -> Float[Tensor, "batch d"]:
        """Read the networks: the last hidden layer."""
        graph = self.represent(graph)
        normal = self.normalise(graph)
        parts = [*normal.nodes.values()]
        parts += [normal.edges[block.name] for block in graph.spec.blocks if block.pieces]
        embedding: Tensor = self.hidden(torch.cat([part.flatten(1) for part in parts], dim=1))
        return embedding

    def head(self, embedding: Float[Tensor, "batch d"]) -> Float[Tensor, "batch outputs"]:
        """Map embeddings to outputs."""
        result: Tensor = self.last(embedding)
        return result
