"""The baseline that knows nothing of symmetry: an MLP on the flattened weights."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.errors import ModelError
from weightspace.graph import NeuralGraph
from weightspace.models.option_limits import checked_options
from weightspace.models.placed_changes import placed_changes
from weightspace.models.requirements import Requirements
from weightspace.models.trunk import Changes, ChangesHead, Option, Readout, Trunk
from weightspace.nn.hidden_layers import hidden_layers
from weightspace.nn.networks import Networks


class FlatMLP(Trunk):
    """An MLP on all weights and biases as one vector.

    The baseline "MLP" of Navon et al. 2023, table 1, here with LayerNorm and dropout so that
    it has the care the other models have. Reads networks of one architecture only.

    Args:
        requirements: the networks it reads.
        width: neurons of each hidden layer.
        layers: hidden layers.
        dropout: rate after each hidden layer.

    Raises:
        ModelError: the training networks differ in architecture.

    >>> from weightspace.graph import chain_spec
    >>> from weightspace.models import Requirements
    >>> FlatMLP(Requirements.of([chain_spec([2, 4, 1])])).options["layers"]
    3
    """

    def __init__(
        self,
        requirements: Requirements,
        *,
        width: int = 256,
        layers: int = 3,
        dropout: float = 0.2,
    ) -> None:
        super().__init__(requirements)
        if not requirements.values:
            raise ModelError(
                "flat MLP",
                expected="training networks of one architecture",
                found="several",
                hint="Use a model that reads graphs, such as ng-gnn.",
            )
        self._options = checked_options({"width": width, "layers": layers, "dropout": dropout})
        self.width = width
        self.hidden = hidden_layers(requirements.values, width, layers, dropout=dropout)

    @property
    def options(self) -> dict[str, Option]:
        """The keyword arguments that make this trunk again."""
        return dict(self._options)

    def forward(self, networks: Networks) -> Float[Tensor, "batch width"]:
        """Read the networks: the last hidden layer."""
        hidden: Tensor = self.hidden(flat_values(networks))
        return hidden

    def make_readout(self) -> Readout:
        """The hidden layer itself."""
        return VectorReadout(self.width)

    def make_changes(self) -> ChangesHead:
        """A linear map to all values."""
        return FlatChanges(self.width, self.requirements)


def flat_values(networks: Networks) -> Float[Tensor, "batch values"]:
    """All normalised weights and biases of networks of one spec, as one vector each."""
    rows = [_row(part) for part in networks.normal.parts]
    return rows[0] if len(rows) == 1 else torch.cat(rows)


def _row(graph: NeuralGraph) -> Float[Tensor, "networks values"]:
    parts = [graph.nodes[node_set.name] for node_set in graph.spec.node_sets]
    parts += [graph.edges[block.name] for block in graph.spec.blocks if block.pieces]
    return torch.cat([part.flatten(1) for part in parts], dim=1)


class VectorReadout(Readout):
    """A state that is a vector for each network already."""

    def forward(self, networks: Networks, state: Tensor) -> Float[Tensor, "batch width"]:
        """Bring the vectors to the order of the batch."""
        return networks.in_order(state)


class FlatChanges(ChangesHead):
    """A linear map from a vector to a change of every value, in the order of the vector.

    Args:
        width: the length of the vector.
        requirements: the networks to be edited; of one spec.
    """

    def __init__(self, width: int, requirements: Requirements) -> None:
        super().__init__()
        self.channels = max(requirements.node_features, 1)
        self.last = nn.Linear(width, requirements.values)

    def forward(self, networks: Networks, state: Tensor) -> Changes:
        """Cut the values into those of node sets and blocks."""
        nodes: dict[tuple[int, int], Tensor] = {}
        edges: dict[tuple[int, int], Tensor] = {}
        counts = [part.batch_size for part in networks.own.parts]
        for part, values in enumerate(torch.split(self.last(state), counts)):
            spec = networks.own.specs[part]
            sizes = [spec.nodes_in(n.name) * n.features for n in spec.node_sets]
            sizes += [spec.shape_of(b).edges * b.features if b.pieces else 0 for b in spec.blocks]
            cut = torch.split(values, sizes, dim=1)
            for place, node_set in enumerate(spec.node_sets):
                shape = (len(values), spec.nodes_in(node_set.name), node_set.features)
                nodes[part, place] = cut[place].reshape(shape)
            for place, block in enumerate(spec.blocks):
                if block.pieces:
                    edges[part, place] = cut[len(spec.node_sets) + place]
        return placed_changes(networks, self.channels, nodes, edges)
