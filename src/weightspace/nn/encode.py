"""From a graph's features to the first states of its nodes and edges."""

from __future__ import annotations

from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.graph import ACTIVATION_COUNT, ChainRunner
from weightspace.nn.deferred_film import DeferredEdges
from weightspace.nn.edge_maps import DirectedMap
from weightspace.nn.edge_values import edge_values
from weightspace.nn.fourier import FourierLinear
from weightspace.nn.networks import Networks


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

    def edge_channels(self, layout: tuple[int, ...]) -> list[int]: ...  # noqa: D102


class NodeIdentity(nn.Module):
    """A learned vector for who a node is and one for the function it computes.

    Kofinas et al. 2024, sections 3.1 and 3.2: every input and output node has its own vector, the
    nodes of each hidden layer share theirs; a vector for each activation function.

    Args:
        sizes: the networks to be read.
        width: channels of the states.
    """

    def __init__(self, sizes: Sizes, *, width: int) -> None:
        super().__init__()
        counts = [sizes.inputs, max(sizes.hidden, 1), sizes.outputs]
        self.starts = (0, counts[0], counts[0] + counts[1])
        self.positions = nn.Embedding(sum(counts), width)
        self.activation = nn.Embedding(ACTIVATION_COUNT, width)

    def forward(self, networks: Networks) -> Float[Tensor, "nodes d"]:
        """Look the vectors up."""
        arrangement = networks.arrangement
        device = self.positions.weight.device
        places = arrangement.positions + torch.tensor(self.starts)[arrangement.roles]
        found: Tensor = self.positions(places.to(device))
        function: Tensor = self.activation(arrangement.activations.to(device))
        return found + function


class NodeEncoder(nn.Module):
    """The sum of what is known of a node: its bias, position and activation.

    Kofinas et al. 2024, section 3: biases through random Fourier features and a linear map;
    the vectors of :class:`NodeIdentity`.

    Args:
        sizes: the networks to be read.
        width: channels of the states.
        frequencies: of the Fourier features.
        sigma: their deviation.
    """

    def __init__(self, sizes: Sizes, *, width: int, frequencies: int, sigma: float) -> None:
        super().__init__()
        self.channels = max(sizes.node_features, 1)
        self.value = FourierLinear(self.channels, width, frequencies=frequencies, sigma=sigma)
        self.identity = NodeIdentity(sizes, width=width)

    def forward(self, networks: Networks) -> Float[Tensor, "nodes d"]:
        """Encode the nodes."""
        values: Tensor = self.value(networks.node_features(self.channels))
        identity: Tensor = self.identity(networks)
        return values + identity


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

    def forward(self, networks: Networks) -> Float[Tensor, "nodes d"]:
        """Run the networks and encode the values at every node set.

        Raises:
            SpecError: the networks are no plain chains, and cannot be run from their spec.
        """
        encoded: dict[tuple[int, int], Tensor] = {}
        for part, graph in enumerate(networks.own.parts):
            values = ChainRunner(graph.spec).probe(graph, self.inputs)
            hidden = 0
            for place, node_set in enumerate(graph.spec.node_sets):
                if node_set.role == "hidden":
                    own, hidden = 2 + hidden, hidden + 1
                else:
                    own = 0 if node_set.role == "input" else 1
                encoded[part, place] = self.maps[own](values[node_set.name])
        return networks.arrangement.join(encoded)


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
        self.sizes = sizes
        channels = sizes.edge_features
        self.value = FourierLinear(channels, width, frequencies=frequencies, sigma=sigma)
        self.directions = nn.Linear(3 * width, width)

    def forward(
        self, networks: Networks
    ) -> tuple[Float[Tensor, "two edges d"] | DeferredEdges, DirectedMap]:
        """Encode the edges.

        Returns:
            The states ``e_ij``, the same in both directions, stored or deferred as the networks
            say, and the map to the first states, left to their readers.
        """
        along, against, both = self.directions.weight.chunk(3, dim=1)
        weight = torch.stack([along + both, against + both])
        written = DirectedMap(weight, torch.stack([self.directions.bias] * 2))
        channels = [self.sizes.edge_channels(r.layout) for r in networks.arrangement.runs]
        if networks.executor == "deferred":
            return DeferredEdges.of(networks, self.value, channels), written
        states = edge_values(networks, channels, self.value)
        return states.expand(2, *states.shape), written
