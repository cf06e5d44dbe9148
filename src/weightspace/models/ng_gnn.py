"""NG-GNN: the neural-graph message-passing network of Kofinas et al. 2024."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.graph import GraphSpec
from weightspace.models.changes import GraphChanges, GraphState
from weightspace.models.option_limits import checked_options
from weightspace.models.readouts import OutputNodes
from weightspace.models.requirements import Requirements
from weightspace.models.runners import check_runnable
from weightspace.models.trunk import ChangesHead, Option, Readout, Trunk
from weightspace.nn.arrangement import Arrangement
from weightspace.nn.deferred_film import DeferredEdges
from weightspace.nn.edge_maps import DirectedMap
from weightspace.nn.edge_update import EdgeUpdate
from weightspace.nn.encode import EdgeEncoder, NodeEncoder, ProbeEncoder
from weightspace.nn.networks import Networks
from weightspace.nn.pna import PNALayer

Edges = Tensor | DeferredEdges


class NGGNNLayer(nn.Module):
    """One layer: messages, then edges, then what stands between layers.

    Args:
        width: channels of node and edge states.
        delta: see :class:`~weightspace.nn.pna.PNALayer`.
        dropout: rate after the activation.
    """

    def __init__(self, width: int, *, delta: float, dropout: float) -> None:
        super().__init__()
        self.messages = PNALayer(width, delta=delta)
        self.update = EdgeUpdate(width)
        self.norm = nn.LayerNorm(width)
        self.dropout = dropout

    def forward(
        self,
        arrangement: Arrangement,
        nodes: Float[Tensor, "nodes d"],
        edges: Edges,
        written: DirectedMap,
    ) -> tuple[Tensor, Edges, DirectedMap]:
        """Update node and edge states.

        Args:
            arrangement: of the batch.
            nodes: the states of all nodes.
            edges: the edges' states before the map ``written``, stored or deferred.
            written: the linear map the edges' last writer left to its readers.

        Returns:
            New nodes, new edges, and the map that their writer leaves.
        """
        nodes = self.messages(arrangement, nodes, edges, written)
        if isinstance(edges, Tensor):
            edges = self.update(arrangement, nodes, edges, written)
        else:
            edges = edges.updated(self.update, nodes, written)
        nodes = F.dropout(F.silu(self.norm(nodes)), self.dropout, self.training)
        return nodes, edges, DirectedMap.of(self.update.out)


class NGGNN(Trunk):
    """Message passing on neural graphs with FiLM messages and edge updates.

    Kofinas et al., "Graph Neural Networks for Learning Equivariant Representations of Neural
    Networks", ICLR 2024. Layers of :class:`~weightspace.nn.pna.PNALayer` and
    :class:`~weightspace.nn.edge_update.EdgeUpdate` over both directions of every connection;
    LayerNorm of each node by itself, SiLU and dropout between layers; for a prediction, the
    states of the output nodes, concatenated, go through an MLP.

    Args:
        requirements: the networks it reads.
        width: channels of node and edge states.
        layers: message-passing layers.
        dropout: rate between layers.
        probes: learned inputs that every network is run on; 0 reads weights alone.
        frequencies: of the random Fourier features of weights and biases.
        sigma: the deviation of those frequencies.

    >>> from weightspace.graph import chain_spec
    >>> from weightspace.models import Requirements
    >>> spec = chain_spec([2, 4, 1], activations="tanh")
    >>> sum(p.numel() for p in NGGNN(Requirements.of([spec])).parameters()) > 80_000
    True
    """

    def __init__(
        self,
        requirements: Requirements,
        *,
        width: int = 32,
        layers: int = 4,
        dropout: float = 0.2,
        probes: int = 0,
        frequencies: int = 128,
        sigma: float = 3.0,
    ) -> None:
        super().__init__(requirements)
        self._options = checked_options(
            {
                "width": width,
                "layers": layers,
                "dropout": dropout,
                "probes": probes,
                "frequencies": frequencies,
                "sigma": sigma,
            }
        )
        self.width = width
        self.nodes = NodeEncoder(requirements, width=width, frequencies=frequencies, sigma=sigma)
        self.edges = EdgeEncoder(requirements, width=width, frequencies=frequencies, sigma=sigma)
        self.probes = ProbeEncoder(requirements, width=width, probes=probes) if probes else None
        self.layers = nn.ModuleList(
            NGGNNLayer(width, delta=requirements.log_degree, dropout=dropout)
            for _ in range(layers - 1)
        )
        self.last = PNALayer(width, delta=requirements.log_degree)

    @property
    def options(self) -> dict[str, Option]:
        """The keyword arguments that make this trunk again."""
        return dict(self._options)

    def forward(self, networks: Networks) -> GraphState:
        """Read networks: node states after the last layer, edge states after the last but one."""
        nodes = self.nodes(networks)
        if self.probes is not None:
            nodes = nodes + self.probes(networks)
        edges, written = self.edges(networks)
        arrangement = networks.arrangement
        for layer in self.layers:
            nodes, edges, written = layer(arrangement, nodes, edges, written)
        return GraphState(self.last(arrangement, nodes, edges, written), edges, written)

    def edge_state_bytes(self, networks: Networks) -> int:
        """What storing the edge states takes, for the gradient too if it is wanted."""
        kept = len(self.layers) + 2 if torch.is_grad_enabled() else 2
        one = networks.arrangement.edge_count * self.width * self.last.out.weight.element_size()
        return 2 * kept * one

    def check(self, spec: GraphSpec) -> None:
        """Check that networks can be read, and run if there are probes.

        Raises:
            ModelError: naming what stands in the way.
        """
        super().check(spec)
        if self.probes is not None:
            check_runnable(spec, hint="Without probes the model reads weights alone: ng-gnn.")

    def make_readout(self) -> Readout:
        """The output nodes' states through an MLP."""
        return OutputNodes(self.requirements.outputs, self.width, layers=2)

    def make_changes(self) -> ChangesHead:
        """An MLP on each node, and one on each edge with both its ends."""
        return GraphChanges(self.requirements, nodes=self.width, edges=self.width)
