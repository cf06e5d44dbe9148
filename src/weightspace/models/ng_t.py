"""NG-T: the relational transformer on neural graphs of Kofinas et al. 2024."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from weightspace.graph import GraphSpec
from weightspace.models.option_limits import checked_options
from weightspace.models.pair_changes import PairChanges, PairState
from weightspace.models.readouts import OutputNodes
from weightspace.models.requirements import Requirements
from weightspace.models.runners import check_runnable
from weightspace.models.trunk import ChangesHead, Option, Readout, Trunk
from weightspace.nn.arrangement import Arrangement
from weightspace.nn.encode import NodeEncoder, ProbeEncoder
from weightspace.nn.networks import Networks
from weightspace.nn.pair_encoder import PairEncoder
from weightspace.nn.pair_layout import PairLayout
from weightspace.nn.pair_layouts import all_pairs
from weightspace.nn.pair_update import PairUpdate
from weightspace.nn.relational_layer import RelationalNodes


class NGTLayer(nn.Module):
    """One layer: new node states, then new states of pairs.

    Args:
        nodes: see :class:`~weightspace.nn.relational_layer.RelationalNodes`.
        pairs: see :class:`~weightspace.nn.pair_update.PairUpdate`.
    """

    def __init__(self, nodes: RelationalNodes, pairs: PairUpdate) -> None:
        super().__init__()
        self.nodes = nodes
        self.pairs = pairs

    def forward(
        self,
        layout: PairLayout,
        nodes: Float[Tensor, "nodes n"],
        pairs: Float[Tensor, "pairs d"],
    ) -> tuple[Tensor, Tensor]:
        """Update node and pair states.

        Args:
            layout: the pairs.
            nodes: the states of all nodes.
            pairs: the states of all pairs.
        """
        nodes = self.nodes(layout, nodes, pairs)
        return nodes, self.pairs(layout, nodes, pairs)


class NGT(Trunk):
    """A relational transformer over all pairs of neurons of a network.

    Kofinas et al., "Graph Neural Networks for Learning Equivariant Representations of Neural
    Networks", ICLR 2024. Layers of :class:`~weightspace.nn.relational_layer.RelationalNodes`
    and :class:`~weightspace.nn.pair_update.PairUpdate`; for a prediction, the states of the
    output nodes, concatenated, go through an MLP. Neurons attend to those of their own network
    only, in mixed batches too.

    Args:
        requirements: the networks it reads.
        width: channels of node states.
        pair_width: channels of pair states.
        size: channels of queries, keys and values.
        heads: of the attention.
        layers: of the transformer.
        node_hidden: channels of the hidden layer of the nodes' MLP, and of the readout's.
        pair_hidden: the same of the pairs' MLPs.
        dropout: rate after attention and after MLPs; on pairs a multiple of 1/256.
        probes: learned inputs that every network is run on; 0 reads weights alone.
        frequencies: of the random Fourier features of weights and biases.
        sigma: the deviation of those frequencies.

    >>> from weightspace.graph import chain_spec
    >>> from weightspace.models import Requirements
    >>> spec = chain_spec([2, 4, 1], activations="tanh")
    >>> sum(p.numel() for p in NGT(Requirements.of([spec])).parameters()) > 300_000
    True
    """

    def __init__(
        self,
        requirements: Requirements,
        *,
        width: int = 64,
        pair_width: int = 32,
        size: int = 128,
        heads: int = 8,
        layers: int = 4,
        node_hidden: int = 128,
        pair_hidden: int = 64,
        dropout: float = 0.2,
        probes: int = 0,
        frequencies: int = 128,
        sigma: float = 1.0,
    ) -> None:
        super().__init__(requirements)
        self._options = checked_options(
            {
                "width": width,
                "pair_width": pair_width,
                "size": size,
                "heads": heads,
                "layers": layers,
                "node_hidden": node_hidden,
                "pair_hidden": pair_hidden,
                "dropout": dropout,
                "probes": probes,
                "frequencies": frequencies,
                "sigma": sigma,
            },
            divides=("heads", "size"),
        )
        self._sizes = width, pair_width, pair_hidden, node_hidden, dropout

        def new_nodes() -> RelationalNodes:
            return RelationalNodes(
                nodes=width,
                pairs=pair_width,
                size=size,
                heads=heads,
                hidden=node_hidden,
                dropout=dropout,
            )

        self.nodes = NodeEncoder(requirements, width=width, frequencies=frequencies, sigma=sigma)
        self.pairs = PairEncoder(
            requirements, width=pair_width, frequencies=frequencies, sigma=sigma
        )
        self.probes = ProbeEncoder(requirements, width=width, probes=probes) if probes else None
        self.layers = nn.ModuleList(
            NGTLayer(new_nodes(), self._new_update()) for _ in range(layers - 1)
        )
        self.last = new_nodes()
        xavier_(self)

    def _new_update(self) -> PairUpdate:
        width, pair_width, hidden, _, dropout = self._sizes
        return PairUpdate(nodes=width, pairs=pair_width, hidden=hidden, dropout=dropout)

    @property
    def options(self) -> dict[str, Option]:
        """The keyword arguments that make this trunk again."""
        return dict(self._options)

    def layout(self, arrangement: Arrangement) -> PairLayout:
        """The pairs of neurons that have states: all."""
        return all_pairs(arrangement)

    def forward(self, networks: Networks) -> PairState:
        """Read networks: node states after the last layer, pair states after the last but one."""
        layout = self.layout(networks.arrangement)
        nodes = self.nodes(networks)
        if self.probes is not None:
            nodes = nodes + self.probes(networks)
        pairs = self.pairs(networks, layout)
        for layer in self.layers:
            nodes, pairs = layer(layout, nodes, pairs)
        return PairState(layout, self.last(layout, nodes, pairs), pairs)

    def check(self, spec: GraphSpec) -> None:
        """Check that networks can be read, and run if there are probes.

        Raises:
            ModelError: naming what stands in the way.
        """
        super().check(spec)
        if self.probes is not None:
            check_runnable(spec, hint="Without probes the model reads weights alone: ng-t.")

    def make_readout(self) -> Readout:
        """The output nodes' states through an MLP with one hidden layer."""
        width, _, _, hidden, _ = self._sizes
        return WideOutputNodes(self.requirements.outputs, width, hidden=hidden)

    def make_changes(self) -> ChangesHead:
        """The last update of the pairs, and an MLP on each node and connection."""
        width, pair_width, _, _, _ = self._sizes
        update = self._new_update()
        xavier_(update)
        return PairChanges(self.requirements, nodes=width, pairs=pair_width, update=update)


class WideOutputNodes(OutputNodes):
    """The states of the output nodes, concatenated, through one hidden layer of another width.

    Args:
        outputs: output neurons of a network.
        width: channels of the node states.
        hidden: channels of the hidden layer.
    """

    def __init__(self, outputs: int, width: int, *, hidden: int) -> None:
        super().__init__(outputs, width, layers=0)
        self.width = hidden
        self.mlp = nn.Sequential(nn.Linear(max(outputs, 1) * width, hidden), nn.GELU())
        xavier_(self)


def xavier_(module: nn.Module) -> None:
    """Start all linear maps Xavier-uniform, with biases of zero."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
