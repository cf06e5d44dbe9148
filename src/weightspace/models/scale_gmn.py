"""ScaleGMN: message passing that knows neurons' signs and scales (Kalogeropoulos et al. 2024)."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

from weightspace.graph import (
    GraphSpec,
    MixedGraph,
    canonical_turns,
    rescaled,
    settled_factors,
)
from weightspace.models.canonical_forms import Form, Stacked, in_forms
from weightspace.models.option_limits import checked_options
from weightspace.models.requirements import Requirements
from weightspace.models.scale_heads import ScaleChanges, ScaleReadout
from weightspace.models.trunk import ChangesHead, Option, Prepared, Readout, Trunk
from weightspace.nn.marks import marks_of
from weightspace.nn.networks import Networks
from weightspace.nn.scale_encode import ScaleEdges, ScaleNodes
from weightspace.nn.scale_layer import ScaleLayer


class ScaleState(NamedTuple):
    """What message passing makes of a batch.

    Args:
        nodes: carry their neurons' factors.
        given: what is known of the neurons otherwise.
        edges: the states along connections, which carry ``q_i / q_j``.
    """

    nodes: Float[Tensor, "nodes d"]
    given: Float[Tensor, "nodes d"]
    edges: Float[Tensor, "edges d"]


class ScaleGMN(Trunk):
    """Message passing on neural graphs that respects the signs and scales of neurons.

    Kalogeropoulos et al., "Scale Equivariant Graph Metanetworks", NeurIPS 2024. A neuron of an
    odd activation may be multiplied by -1, one of a positively homogeneous activation by any
    ``q > 0``, if its outgoing weights are divided by it; the network's function stays. Node
    states carry ``q_i`` and edge states ``q_i / q_j`` through maps without biases, gated by
    invariants, see :class:`~weightspace.nn.scale_layer.ScaleLayer`. Which neurons have which
    freedom is read off the spec, see :func:`weightspace.graph.rescaled.rescaled`: chains of mixed
    activations, convolutions, norms and residuals alike.

    Networks are first brought to canonical scales: against a connection states must carry
    ``q_j / q_i``, and every bounded function of a weight does in canonical form. Biases of sine
    chains are brought to canonical phases. Rescalings that act on a part of a node set's
    connections only (the values of an attention) have no place in the states; canonical signs
    and scales see to them.

    Args:
        requirements: the networks it reads.
        width: channels of node and edge states.
        layers: message-passing layers.
        bidirectional: whether messages also run against the connections.
        dropout: rate of invariants.

    Raises:
        ModelError: there is no layer.

    >>> from weightspace.graph import chain_spec
    >>> from weightspace.models import Requirements
    >>> spec = chain_spec([2, 4, 1], activations="tanh")
    >>> ScaleGMN(Requirements.of([spec]), width=8).options["bidirectional"]
    True
    """

    def __init__(
        self,
        requirements: Requirements,
        *,
        width: int = 128,
        layers: int = 4,
        bidirectional: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(requirements)
        self._options = checked_options(
            {
                "width": width,
                "layers": layers,
                "bidirectional": bidirectional,
                "dropout": dropout,
            }
        )
        self.width, self.bidirectional = width, bidirectional
        self.nodes = ScaleNodes(requirements, width=width)
        self.edges = ScaleEdges(requirements)
        first = self.edges.widths if bidirectional else self.edges.widths[:1]
        inner = (width,) * len(first)
        self.layers = nn.ModuleList(
            ScaleLayer(inner if place else first, width, edges=place < layers - 1, dropout=dropout)
            for place in range(layers)
        )
        self.edge_width = width if layers > 1 else first[0]

    @property
    def options(self) -> dict[str, Option]:
        """The keyword arguments that make this trunk again."""
        return dict(self._options)

    def prepare(self, batch: MixedGraph) -> Prepared:
        """Bring networks to canonical phases and scales; to canonical signs where needed."""
        return in_forms(batch, _forms)

    def forward(self, networks: Networks) -> ScaleState:
        """Read networks."""
        arrangement = networks.arrangement
        marks = marks_of(arrangement)
        nodes, given = self.nodes(networks, marks)
        edges = self.edges(networks, marks, against=self.bidirectional)
        for layer in self.layers:
            nodes, edges = layer(arrangement, marks, nodes, given, edges)
        return ScaleState(nodes, given, edges[0])

    def make_readout(self) -> Readout:
        """Invariants of input and hidden nodes, pooled, and the output nodes' states."""
        return ScaleReadout(self.requirements.outputs, self.width)

    def make_changes(self) -> ChangesHead:
        """Equivariant nets of nodes and edges."""
        return ScaleChanges(self.requirements, width=self.width, edges=self.edge_width)


def _forms(spec: GraphSpec) -> list[Form]:
    kinds = {r.name: r.kind for r in spec.rescalings}
    leftover = {kinds[name] for name in rescaled(spec).leftover}
    signs: list[Form] = [_signs] if "sign" in leftover else []
    # signs last: sums over weights that enter and leave a neuron depend on its scale
    return [canonical_turns, _scales, *signs]


def _signs(spec: GraphSpec, stacked: Stacked) -> tuple[Stacked, Stacked]:
    return settled_factors(spec, stacked, "sign")


def _scales(spec: GraphSpec, stacked: Stacked) -> tuple[Stacked, Stacked]:
    return settled_factors(spec, stacked, "scale")
