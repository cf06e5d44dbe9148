"""NFT: the neural functional transformer of Zhou et al. 2023."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weightspace.errors import ModelError
from weightspace.graph import GraphSpec
from weightspace.models.nfn_np import NFChanges, NFRead, NFReadout
from weightspace.models.option_limits import checked_options
from weightspace.models.requirements import Requirements
from weightspace.models.trunk import ChangesHead, Option, Readout, Trunk
from weightspace.nn.arrangement import Arrangement
from weightspace.nn.edge_values import edge_values
from weightspace.nn.encode import NodeIdentity
from weightspace.nn.fourier import FourierLinear
from weightspace.nn.lead import at_lead
from weightspace.nn.networks import Networks
from weightspace.nn.nf_layer import NFState
from weightspace.nn.nf_slots import Segment, Slots, segments
from weightspace.nn.nft_layer import NFTLayer
from weightspace.nn.touching import touching


class NFT(Trunk):
    """Weights that attend along rows and columns, and to the layers of their network.

    Zhou et al., "Neural Functional Transformers", NeurIPS 2023. Weights and biases enter through
    random Fourier features; a learned vector of each layer breaks the exchange of layers, one of
    each input and output neuron that of those. Blocks of :class:`~weightspace.nn.NFTLayer`; for a
    prediction the normalised means of each layer's weights and biases go through an MLP. As
    published: width 256. Reads mixed batches.

    Args:
        requirements: the networks it reads.
        width: channels of each weight and bias.
        layers: blocks of attention and MLP.
        heads: of each attention; they divide the width.
        frequencies: of the random Fourier features.
        sigma: the deviation of those frequencies.
        head: width of the two layers of the readout.

    Raises:
        ModelError: the heads do not divide the width.

    >>> from weightspace.graph import chain_spec
    >>> from weightspace.models import Requirements
    >>> NFT(Requirements.of([chain_spec([2, 8, 1])])).options["heads"]
    4
    """

    def __init__(
        self,
        requirements: Requirements,
        *,
        width: int = 64,
        layers: int = 4,
        heads: int = 4,
        frequencies: int = 128,
        sigma: float = 3.0,
        head: int = 256,
    ) -> None:
        super().__init__(requirements)
        self._options = checked_options(
            {
                "width": width,
                "layers": layers,
                "heads": heads,
                "frequencies": frequencies,
                "sigma": sigma,
                "head": head,
            },
            divides=("heads", "width"),
        )
        self.width, self.head = width, head
        self.slots = Slots(
            requirements.spec, requirements.hidden, max(requirements.node_features, 1)
        )
        self.node_channels = max(requirements.node_features, 1)
        self.of_nodes = FourierLinear(
            self.node_channels, width, frequencies=frequencies, sigma=sigma
        )
        self.of_edges = FourierLinear(
            requirements.edge_features, width, frequencies=frequencies, sigma=sigma
        )
        self.identity = NodeIdentity(requirements, width=width)
        self.depth = nn.Embedding(self.slots.blocks, width)
        self.layers = nn.ModuleList(NFTLayer(width, heads=heads) for _ in range(layers))
        self.last = nn.ModuleDict({kind: nn.LayerNorm(width) for kind in ("node", "edge")})

    @property
    def options(self) -> dict[str, Option]:
        """The keyword arguments that make this trunk again."""
        return dict(self._options)

    def check(self, spec: GraphSpec) -> None:
        """Check that networks of a spec can be read.

        Raises:
            ModelError: they have grouped connections, more layers than the training networks,
                other inputs or outputs, or are of another than the only training architecture.
        """
        if self.requirements.spec not in (None, spec):
            raise ModelError(
                "network",
                expected="the architecture of all training networks",
                found="another",
                hint="Trained on networks of several architectures it shares weights by depth.",
            )
        self.requirements.check(spec)
        for block in spec.blocks:
            shape = spec.shape_of(block)
            if shape.groups > 1 and shape.targets * shape.sources > 1:
                raise ModelError(
                    f"block {block.name}",
                    expected="rows and columns over whole layers, which nft attends along",
                    found=f"{shape.groups} groups of {shape.targets} by {shape.sources}",
                    hint="nfn-np and ng-gnn read grouped connections.",
                )

    def forward(self, networks: Networks) -> NFRead:
        """Read networks."""
        arrangement = networks.arrangement
        parts = segments(arrangement, self.slots)
        nodes = self.of_nodes(networks.node_features(self.node_channels))
        nodes = nodes + self.identity(networks)
        edges = self._edges(networks, parts)
        touches = touching(arrangement)
        for layer in self.layers:
            nodes, edges = layer(arrangement, touches, nodes, edges)
        nodes, edges = self.last["node"](nodes), self.last["edge"](edges)
        return NFRead(NFState.of(_cut(arrangement, parts, edges), nodes), parts)

    def _edges(self, networks: Networks, parts: list[Segment]) -> Tensor:
        arrangement = networks.arrangement
        channels = [self.requirements.edge_channels(run.layout) for run in arrangement.runs]
        lifted = edge_values(networks, channels, self.of_edges)
        sizes = [
            (part.lead.stop - part.lead.start)
            * arrangement.runs[part.run].targets
            * arrangement.runs[part.run].sources
            for part in parts
        ]
        depths = torch.split(lifted, sizes)
        return torch.cat(
            [
                values + self.depth.weight[part.identity]
                for part, values in zip(parts, depths, strict=True)
            ]
        )

    def make_readout(self) -> Readout:
        """Means of each layer's weights and biases, and an MLP."""
        return NFReadout(self.slots, self.width, width=self.head)

    def make_changes(self) -> ChangesHead:
        """A linear map of each weight's and each bias's state."""
        return NFChanges(self.requirements, self.width)


def _cut(arrangement: Arrangement, parts: list[Segment], edges: Tensor) -> list[Tensor]:
    views = arrangement.views(edges)
    return [at_lead(views[part.run], part.lead) for part in parts]
