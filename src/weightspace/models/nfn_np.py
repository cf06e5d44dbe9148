"""NFN for permutations of all neurons, with position encodings: Zhou et al. 2023."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.errors import ModelError
from weightspace.graph import GraphSpec
from weightspace.models.option_limits import checked_options
from weightspace.models.requirements import Requirements
from weightspace.models.trunk import Changes, ChangesHead, Option, Readout, Trunk
from weightspace.nn.edge_values import edge_values
from weightspace.nn.encode import NodeIdentity
from weightspace.nn.fourier_features import FourierFeatures
from weightspace.nn.networks import Networks
from weightspace.nn.nf_layer import NFLayer, NFState, network_means
from weightspace.nn.nf_slots import Segment, Slots, segments


class NFRead(NamedTuple):
    """What the layers make of networks, and how it is cut."""

    state: NFState
    parts: list[Segment]


class NFNNP(Trunk):
    """Layers equivariant to the permutations of all neurons, inputs and outputs included.

    Zhou et al., "Permutation Equivariant Neural Functionals", NeurIPS 2023, the form NP. Weights
    and biases enter through random Fourier features; :class:`~weightspace.nn.NFLayer` and ReLU in
    turn; for a prediction the means of each layer's weights and biases go through an MLP. Learned
    vectors of each input and output neuron, added after the first map to what these neurons give
    to their weights, break the symmetry that networks do not have. As published: width 512,
    head 1000. Reads blocks of every kind, and mixed batches: layers share weights by depth.

    Args:
        requirements: the networks it reads.
        width: channels of each weight and bias.
        layers: equivariant layers.
        frequencies: of the random Fourier features.
        sigma: the deviation of those frequencies.
        head: width of the two layers of the readout.
        positions: whether neurons' positions and activations are encoded; without, exchanged
            inputs or outputs change nothing.

    >>> from weightspace.graph import chain_spec
    >>> from weightspace.models import Requirements
    >>> NFNNP(Requirements.of([chain_spec([2, 8, 1])]), width=16).options["layers"]
    3
    """

    def __init__(
        self,
        requirements: Requirements,
        *,
        width: int = 64,
        layers: int = 3,
        frequencies: int = 128,
        sigma: float = 3.0,
        head: int = 256,
        positions: bool = True,
    ) -> None:
        super().__init__(requirements)
        self._options = checked_options(
            {
                "width": width,
                "layers": layers,
                "frequencies": frequencies,
                "sigma": sigma,
                "head": head,
                "positions": positions,
            }
        )
        self.width, self.head = width, head
        self.slots = Slots(requirements.spec, requirements.hidden, requirements.node_features)
        self.of_nodes = FourierFeatures(
            max(requirements.node_features, 1), frequencies=frequencies, sigma=sigma
        )
        self.of_edges = FourierFeatures(
            requirements.edge_features, frequencies=frequencies, sigma=sigma
        )
        self.positions = NodeIdentity(requirements, width=3 * width) if positions else None
        if self.positions is not None:
            for table in (self.positions.positions, self.positions.activation):
                nn.init.normal_(table.weight, std=0.3)
        self.layers = nn.ModuleList(
            NFLayer(self.slots, width if i else self.of_edges.width, width) for i in range(layers)
        )

    @property
    def options(self) -> dict[str, Option]:
        """The keyword arguments that make this trunk again."""
        return dict(self._options)

    def check(self, spec: GraphSpec) -> None:
        """Check that networks of a spec can be read.

        Raises:
            ModelError: they have more layers than the training networks, or other inputs or
                outputs, or the training networks were of one other architecture.
        """
        if self.requirements.spec not in (None, spec):
            raise ModelError(
                "network",
                expected="the architecture of all training networks",
                found="another",
                hint="Trained on networks of several architectures it shares weights by depth.",
            )
        self.requirements.check(spec)

    def forward(self, networks: Networks) -> NFRead:
        """Read networks."""
        arrangement = networks.arrangement
        parts = segments(arrangement, self.slots)
        state = NFState.of(self._blocks(networks, parts), self._biases(networks))
        given = self.positions(networks) if self.positions is not None else None
        for layer in self.layers:
            state = layer(arrangement, parts, state, given)
            given = None
        return NFRead(state, parts)

    def _blocks(self, networks: Networks, parts: list[Segment]) -> list[Tensor]:
        arrangement = networks.arrangement
        channels = [self.requirements.edge_channels(run.layout) for run in arrangement.runs]
        lifted = arrangement.views(edge_values(networks, channels, self.of_edges))
        return [lifted[part.run][part.lead] for part in parts]

    def _biases(self, networks: Networks) -> Float[Tensor, "nodes c"]:
        arrangement = networks.arrangement
        features: Tensor = self.of_nodes(networks.node_features(len(self.of_nodes.frequencies)))
        states = arrangement.split(features)
        for section in arrangement.sections:
            if not arrangement.node_set(section).pieces:
                where = section.part, section.place
                states[where] = torch.zeros_like(states[where])
        return arrangement.join(states)

    def make_readout(self) -> Readout:
        """Means of each layer's weights and biases, and an MLP."""
        return NFReadout(self.slots, self.width, width=self.head)

    def make_changes(self) -> ChangesHead:
        """A linear map of each weight's and each bias's features."""
        return NFChanges(self.requirements, self.width)


class NFReadout(Readout):
    """Means of each layer's weights and biases, and an MLP of two layers.

    Args:
        slots: which layers share weights.
        channels: of the state.
        width: of the MLP.
    """

    def __init__(self, slots: Slots, channels: int, *, width: int) -> None:
        super().__init__(width)
        self.slots = slots
        means = (slots.blocks + len(slots.biased())) * channels
        self.mlp = nn.Sequential(
            nn.Linear(means, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        )

    def forward(self, networks: Networks, state: NFRead) -> Float[Tensor, "batch width"]:
        """Pool the state."""
        means = network_means(networks.arrangement, state.parts, self.slots, state.state)
        rows: Tensor = self.mlp(means)
        return networks.in_order(rows)


class NFChanges(ChangesHead):
    """A linear map of each weight's and each bias's features.

    Args:
        requirements: the networks to be edited.
        channels: of the state.
    """

    def __init__(self, requirements: Requirements, channels: int) -> None:
        super().__init__()
        self.requirements = requirements
        self.node = nn.Linear(channels, max(requirements.node_features, 1))
        self.edge = nn.Linear(channels, requirements.edge_features)

    def forward(self, networks: Networks, state: NFRead) -> Changes:
        """Compute the changes."""
        changes = []
        for place, run in enumerate(networks.arrangement.runs):
            chosen = torch.tensor(
                self.requirements.edge_channels(run.layout), device=self.edge.weight.device
            )
            weight, bias = self.edge.weight[chosen], self.edge.bias[chosen]
            changes.append(
                torch.cat(
                    [
                        F.linear(block.flatten(0, 2), weight, bias)
                        for part, block in zip(state.parts, state.state.blocks, strict=True)
                        if part.run == place
                    ]
                )
            )
        return Changes(self.node(state.state.nodes), changes)
