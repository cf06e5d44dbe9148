"""NG-GNN: the neural-graph message-passing network of Kofinas et al. 2024."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.graph import NeuralGraph
from weightspace.models.metanetwork import Metanetwork, Requirements
from weightspace.nn.edge_maps import LinearMap, apply_both
from weightspace.nn.edge_update import EdgeUpdate
from weightspace.nn.encode import EdgeEncoder, NodeEncoder, ProbeEncoder
from weightspace.nn.plan import Edges, Plan, plan_of
from weightspace.nn.pna import PNALayer


class NGGNNLayer(nn.Module):
    """One layer: messages, then edges, then what stands between layers.

    Args:
        width: channels of node and edge states.
        delta: see :class:`~weightspace.nn.pna.PNALayer`.
        dropout: rate after the activation.
        last: the last layer updates no edges and ends without norm and activation.
    """

    def __init__(self, width: int, *, delta: float, dropout: float, last: bool) -> None:
        super().__init__()
        self.messages = PNALayer(width, delta=delta)
        self.update = None if last else EdgeUpdate(width)
        self.norm = nn.Identity() if last else nn.LayerNorm(width)
        self.dropout = dropout

    def forward(
        self, plan: Plan, nodes: Tensor, edges: Edges, written: LinearMap | None
    ) -> tuple[Tensor, Edges, LinearMap | None]:
        """Update node and edge states.

        Args:
            plan: the spec's blocks.
            nodes: the states of all node sets, one after the other.
            edges: the edges' states before the map ``written``.
            written: the linear map the edges' last writer left to its readers.

        Returns:
            New nodes, new edges, and the map that their writer leaves.
        """
        film = LinearMap.of(self.messages.film).after(written)
        if self.update is None:
            filmed = [(F.linear(a, *film), F.linear(b, *film)) for a, b in edges]
            return self.messages(plan, nodes, filmed), edges, None
        lift = LinearMap.of(self.update.edge).after(written)
        along = [apply_both(a, film, lift.weight) for a, _ in edges]
        against = [apply_both(b, film, lift.weight) for _, b in edges]
        filmed, lifted = (
            [(a[i], b[i]) for a, b in zip(along, against, strict=True)] for i in range(2)
        )
        nodes = self.messages(plan, nodes, filmed)
        edges = self.update(plan, nodes, lifted, lift.bias)
        nodes = F.dropout(F.silu(self.norm(nodes)), self.dropout, self.training)
        return nodes, edges, LinearMap.of(self.update.out)


class NGGNN(Metanetwork):
    """Message passing on neural graphs with FiLM messages and edge updates.

    Kofinas et al., "Graph Neural Networks for Learning Equivariant Representations of Neural
    Networks", ICLR 2024. Layers of :class:`~weightspace.nn.pna.PNALayer` and
    :class:`~weightspace.nn.edge_update.EdgeUpdate` over both directions of every connection;
    LayerNorm of each node by itself, SiLU and dropout between layers; the states of the output
    nodes, concatenated, go through an MLP.

    Args:
        requirements: the networks it reads.
        outputs: the length of the output vector.
        width: channels of node and edge states.
        layers: message-passing layers.
        dropout: rate between layers.
        probes: learned inputs that every network is run on; 0 reads weights alone.
        frequencies: of the random Fourier features of weights and biases.
        sigma: the deviation of those frequencies.
        canonical: whether networks are first brought to canonical signs.

    >>> from weightspace.graph import chain_spec
    >>> spec = chain_spec([2, 4, 1], activations="tanh")
    >>> model = NGGNN(Requirements.of([spec]), outputs=10)
    >>> model.parameter_count > 80_000
    True
    """

    def __init__(
        self,
        requirements: Requirements,
        *,
        outputs: int,
        width: int = 32,
        layers: int = 4,
        dropout: float = 0.2,
        probes: int = 0,
        frequencies: int = 128,
        sigma: float = 3.0,
        canonical: bool = False,
    ) -> None:
        super().__init__(requirements, outputs=outputs, canonical=canonical)
        self._options = {
            "width": width,
            "layers": layers,
            "dropout": dropout,
            "probes": probes,
            "frequencies": frequencies,
            "sigma": sigma,
            "canonical": canonical,
        }
        self.nodes = NodeEncoder(requirements, width=width, frequencies=frequencies, sigma=sigma)
        self.edges = EdgeEncoder(requirements, width=width, frequencies=frequencies, sigma=sigma)
        self.probes = ProbeEncoder(requirements, width=width, probes=probes) if probes else None
        self.layers = nn.ModuleList(
            NGGNNLayer(
                width, delta=requirements.log_degree, dropout=dropout, last=place == layers - 1
            )
            for place in range(layers)
        )
        self.readout = nn.Sequential(
            nn.Linear(requirements.outputs * width, width),
            nn.SiLU(),
            nn.Linear(width, width),
            nn.SiLU(),
        )
        self.last = nn.Linear(width, outputs)

    @property
    def options(self) -> dict[str, int | float | bool]:
        """The keyword arguments that make this model again."""
        return dict(self._options)

    def embed(self, graph: NeuralGraph) -> Float[Tensor, "batch d"]:
        """Read the networks: the readout's last hidden layer."""
        graph = self.represent(graph)
        normal = self.normalise(graph)
        nodes = self.nodes(normal)
        if self.probes is not None:
            nodes = [state + seen for state, seen in zip(nodes, self.probes(graph), strict=True)]
        weights = [normal.edges[block.name] for block in graph.spec.blocks]
        plan = plan_of(graph.spec)
        states = plan.split(self.propagate(plan, torch.cat(nodes, dim=1), weights))
        ends = [
            state
            for state, node_set in zip(states, graph.spec.node_sets, strict=True)
            if node_set.role == "output"
        ]
        embedding: Tensor = self.readout(torch.cat(ends, dim=1).flatten(1))
        return embedding

    def head(self, embedding: Float[Tensor, "batch d"]) -> Float[Tensor, "batch outputs"]:
        """Map embeddings to outputs."""
        result: Tensor = self.last(embedding)
        return result

    def propagate(
        self, plan: Plan, nodes: Float[Tensor, "batch neurons d"], weights: Sequence[Tensor]
    ) -> Float[Tensor, "batch neurons d"]:
        """Pass messages: node states after the last layer.

        Args:
            plan: the spec's blocks.
            nodes: the first states of all node sets, one after the other.
            weights: the edge features of each block.
        """
        edges = self.edges(weights)
        written: LinearMap | None = None
        for layer in self.layers:
            nodes, edges, written = layer(plan, nodes, edges, written)
        return nodes
