"""From a graph's features to the first states of its nodes and edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.graph import (
    ACTIVATION_COUNT,
    ChainRunner,
    NeuralGraph,
    activation_identities,
    position_identities,
)
from weightspace.nn.fourier import FourierFeatures
from weightspace.nn.plan import Edges


class Sizes(Protocol):
    """What encoders are sized by, see :class:`weightspace.models.Requirements`."""

    @property
    def inputs(self) -> int: ...  # noqa: D102
    @property
    def outputs(self) -> int: ...  # noqa: D102
    @property
    def hidden(self) -> int: ...  # noqa: D102
    @property
    def node_features(self) -> int: ...  # noqa: D102
    @property
    def edge_features(self) -> int: ...  # noqa: D102


class NodeEncoder(nn.Module):
    """The sum of what is known of a node: its bias, position and activation.

    Kofinas et al. 2024, section 3: biases through random Fourier features and a linear map;
    a learned vector for every input and output node and for each hidden layer; a learned
    vector for the activation function.

    Args:
        sizes: the networks to be read.
        width: channels of the states.
        frequencies: of the Fourier features.
        sigma: their deviation.
    """

    def __init__(self, sizes: Sizes, *, width: int, frequencies: int, sigma: float) -> None:
        super().__init__()
        channels = max(sizes.node_features, 1)
        self.fourier = FourierFeatures(channels, frequencies=frequencies, sigma=sigma)
        self.value = nn.Linear(self.fourier.width, width)
        counts = {"input": sizes.inputs, "hidden": max(sizes.hidden, 1), "output": sizes.outputs}
        self.positions = nn.ModuleDict(
            {role: nn.Embedding(count, width) for role, count in counts.items()}
        )
        self.activation = nn.Embedding(ACTIVATION_COUNT, width)

    def forward(self, graph: NeuralGraph) -> list[Float[Tensor, "batch neurons d"]]:
        """Encode the nodes of every node set."""
        positions, functions = position_identities(graph.spec), activation_identities(graph.spec)
        states = []
        for node_set in graph.spec.node_sets:
            values = _pad(graph.nodes[node_set.name], self.fourier.frequencies.shape[0])
            place = positions[node_set.name].to(values.device)
            function = torch.tensor(functions[node_set.name], device=values.device)
            states.append(
                self.value(self.fourier(values))
                + self.positions[node_set.role](place)
                + self.activation(function)
            )
        return states


class ProbeEncoder(nn.Module):
    """A node's values on learned inputs, through ``LayerNorm(Linear(M, d))`` of its layer.

    Kofinas et al. 2024, section 3.3. The inputs start uniform in (-1, 1) and are trained.

    Args:
        sizes: the networks to be read.
        width: channels of the states.
        probes: the number of probe inputs M.
    """

    def __init__(self, sizes: Sizes, *, width: int, probes: int) -> None:
        super().__init__()
        self.inputs = nn.Parameter(torch.empty(probes, sizes.inputs).uniform_(-1, 1))
        self.maps = nn.ModuleList(
            nn.Sequential(nn.Linear(probes, width), nn.LayerNorm(width))
            for _ in range(sizes.hidden + 2)
        )

    def forward(self, graph: NeuralGraph) -> list[Float[Tensor, "batch neurons d"]]:
        """Run the networks and encode the values at every node set."""
        values = ChainRunner(graph.spec).probe(graph, self.inputs)
        hidden = 0
        encoded = []
        for node_set in graph.spec.node_sets:
            if node_set.role == "hidden":
                place, hidden = 2 + hidden, hidden + 1
            else:
                place = 0 if node_set.role == "input" else 1
            encoded.append(self.maps[place](values[node_set.name]))
        return encoded


class EdgeEncoder(nn.Module):
    """The first states of edges in both directions.

    Kofinas et al. 2024: weights through random Fourier features and a linear map to ``e_ij``;
    then ``Linear([e_ij, e_ji, e_ij + e_ji])``. A connection runs one way, so one of ``e_ij``
    and ``e_ji`` is zero: forwards the map's first and third parts act, backwards its second
    and third, and the product is with their sum.

    Args:
        sizes: the networks to be read.
        width: channels of the states.
        frequencies: of the Fourier features.
        sigma: their deviation.
    """

    def __init__(self, sizes: Sizes, *, width: int, frequencies: int, sigma: float) -> None:
        super().__init__()
        self.fourier = FourierFeatures(sizes.edge_features, frequencies=frequencies, sigma=sigma)
        self.value = nn.Linear(self.fourier.width, width)
        self.directions = nn.Linear(3 * width, width)

    def forward(self, weights: Sequence[Tensor]) -> Edges:
        """Encode the edges of all blocks.

        Args:
            weights: ``[batch, groups, targets, sources, features]`` for each block.
        """
        channels = self.fourier.frequencies.shape[0]
        along, against, both = self.directions.weight.chunk(3, dim=1)
        edges = []
        for weight in weights:
            states = self.value(self.fourier(_pad(weight, channels)))
            edges.append(
                (
                    F.linear(states, along + both, self.directions.bias),
                    F.linear(states, against + both, self.directions.bias),
                )
            )
        return edges


def _pad(features: Tensor, channels: int) -> Tensor:
    """Fill missing feature channels with zeros."""
    return F.pad(features, (0, channels - features.shape[-1]))
