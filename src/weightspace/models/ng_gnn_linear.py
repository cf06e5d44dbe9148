"""NG-GNN for networks of any size: messages linear in lifted edges, no edge states."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

from weightspace.models.linear_changes import LinearChanges
from weightspace.models.option_limits import checked_options
from weightspace.models.readouts import OutputNodes
from weightspace.models.requirements import Requirements
from weightspace.models.trunk import ChangesHead, Option, Readout, Trunk
from weightspace.nn.encode import NodeEncoder
from weightspace.nn.lifted_products import lifted_products
from weightspace.nn.lifts import Lifting
from weightspace.nn.linear_messages import LiftedEdges, LinearLayer, Products
from weightspace.nn.networks import Networks
from weightspace.nn.supernodes import with_supernodes


class LinearState(NamedTuple):
    """What linear message passing makes of a batch.

    Args:
        nodes: the states of all nodes.
        edges: the networks' own weights, as the layers read them.
    """

    nodes: Float[Tensor, "nodes d"]
    edges: LiftedEdges


class NGGNNLinear(Trunk):
    """Message passing on neural graphs with messages that are linear in lifted edges.

    The FiLM messages of Kofinas et al. 2024 without edge states: scale and shift are affine in
    fixed lifts of the weight, see :class:`~weightspace.nn.linear_messages.LinearMessages`. A
    layer takes ``2 d`` operations a weight, lift and direction and stores nothing for any edge:
    networks of a hundred million weights are read on a laptop.

    Args:
        requirements: the networks it reads.
        width: channels of node states.
        layers: message-passing layers.
        dropout: rate in each layer.
        frequencies: of the random Fourier features of biases.
        sigma: the deviation of those frequencies.
        lifts: names of :data:`weightspace.nn.lifts.LIFTS` with spaces between.
        supernodes: of wide node sets, which then exchange messages as that many groups, see
            :func:`~weightspace.nn.supernodes.with_supernodes`; 0 reads every neuron by itself.

    Attributes:
        products: what multiplies lifted weights with states, such as a
            :class:`~weightspace.nn.product_cache.ProductCache` that remembers networks; computes
            everything if None. Not saved with the model.

    >>> from weightspace.graph import chain_spec
    >>> from weightspace.models import Requirements
    >>> NGGNNLinear(Requirements.of([chain_spec([2, 4, 1])])).options["lifts"]
    'weight size squash'
    """

    def __init__(
        self,
        requirements: Requirements,
        *,
        width: int = 64,
        layers: int = 4,
        dropout: float = 0.1,
        frequencies: int = 64,
        sigma: float = 3.0,
        lifts: str = "weight size squash",
        supernodes: int = 0,
    ) -> None:
        super().__init__(requirements)
        self._options = checked_options(
            {
                "width": width,
                "layers": layers,
                "dropout": dropout,
                "frequencies": frequencies,
                "sigma": sigma,
                "lifts": lifts,
                "supernodes": supernodes,
            }
        )
        self.width, self.supernodes = width, supernodes
        self.lifting = Lifting.of(lifts)
        self.products: Products | None = None
        self.nodes = NodeEncoder(requirements, width=width, frequencies=frequencies, sigma=sigma)
        self.layers = nn.ModuleList(
            LinearLayer(
                width,
                channels=requirements.edge_features,
                lifts=self.lifting.count,
                delta=requirements.log_degree,
                dropout=dropout,
            )
            for _ in range(layers)
        )

    @property
    def options(self) -> dict[str, Option]:
        """The keyword arguments that make this trunk again."""
        return dict(self._options)

    def forward(self, networks: Networks) -> LinearState:
        """Read networks: node states after the last layer."""
        return self.pass_messages(networks, supernodes=self.supernodes)

    def pass_messages(self, networks: Networks, *, supernodes: int) -> LinearState:
        """Read networks with another number of supernodes than the trunk's own."""
        edges = LiftedEdges.of(networks, self.lifting, products=self.products or lifted_products)
        if supernodes:
            edges = with_supernodes(edges, networks, supernodes)
        channels = [self.requirements.edge_channels(r.layout) for r in networks.arrangement.runs]
        nodes = self.nodes(networks)
        for layer in self.layers:
            nodes = layer(edges, channels, nodes)
        return LinearState(nodes, edges)

    def make_readout(self) -> Readout:
        """The output nodes' states through an MLP."""
        return OutputNodes(self.requirements.outputs, self.width, layers=2)

    def make_changes(self) -> ChangesHead:
        """An MLP on each node; on each edge, terms bilinear in its ends and linear in its lifts."""
        return LinearChanges(self.requirements, nodes=self.width, lifting=self.lifting)
