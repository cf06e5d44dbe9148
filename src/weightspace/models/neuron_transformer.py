"""A transformer over neurons: a token is a neuron's incoming weights and bias."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from weightspace.errors import ModelError
from weightspace.graph import GraphSpec
from weightspace.models.option_limits import checked_options
from weightspace.models.placed_changes import placed_changes
from weightspace.models.requirements import Requirements, incoming_values
from weightspace.models.trunk import Changes, ChangesHead, Option, Readout, Trunk
from weightspace.nn.networks import Networks
from weightspace.nn.neuron_values import cut_values, neuron_values


class TokenState(NamedTuple):
    """What the encoder makes of a batch.

    Args:
        tokens: ``[networks, tokens, d]`` for each part.
        pooled: the state of the token that stands for the network.
    """

    tokens: list[Tensor]
    pooled: Float[Tensor, "networks d"]


class NeuronTransformer(Trunk):
    """Attention among neurons that know their layer and their place in it.

    Schuerholt et al. 2021, "Self-supervised representation learning on neural network weights
    for model characteristic prediction", the encoder with neuron-wise embedding; the baseline
    "transformer" of Navon et al. 2023, table 1. A neuron's incoming weights and bias, filled up
    with zeros, go through a linear map; learned vectors of its layer and of its place in the
    layer are added, which break the symmetry: that is the baseline's point. A further token
    stands for the network. Networks of one architecture are read together, the architectures of
    a mixed batch one after another, so that nothing attends to padding.

    Args:
        requirements: the networks it reads.
        width: channels of a token.
        layers: encoder layers.
        heads: of attention.
        dropout: rate in the encoder.

    Raises:
        ModelError: the heads do not divide the width.

    >>> from weightspace.graph import chain_spec
    >>> from weightspace.models import Requirements
    >>> NeuronTransformer(Requirements.of([chain_spec([2, 8, 1])])).values.in_features
    9
    """

    def __init__(
        self,
        requirements: Requirements,
        *,
        width: int = 128,
        layers: int = 4,
        heads: int = 4,
        dropout: float = 0.1,
    ) -> None:
        super().__init__(requirements)
        self._options = checked_options(
            {
                "width": width,
                "layers": layers,
                "heads": heads,
                "dropout": dropout,
            },
            divides=("heads", "width"),
        )
        self.width = width
        self.most = max(requirements.neurons, requirements.inputs, requirements.outputs)
        self.values = nn.Linear(requirements.incoming, width)
        self.layer = nn.Embedding(2 + requirements.hidden, width)
        self.place = nn.Embedding(self.most, width)
        self.whole = nn.Parameter(torch.randn(width))
        one = nn.TransformerEncoderLayer(
            width,
            heads,
            dim_feedforward=4 * width,
            dropout=dropout,
            activation=F.gelu,
            batch_first=True,
            norm_first=True,
        )
        self.encoder = nn.TransformerEncoder(
            one, layers, norm=nn.LayerNorm(width), enable_nested_tensor=False
        )

    @property
    def options(self) -> dict[str, Option]:
        """The keyword arguments that make this trunk again."""
        return dict(self._options)

    def check(self, spec: GraphSpec) -> None:
        """Check that neurons have a place and their values a channel.

        Raises:
            ModelError: naming the node set that is too large.
        """
        super().check(spec)
        for node_set, values in zip(spec.node_sets, incoming_values(spec), strict=True):
            limits = (
                ("neurons", self.most, spec.nodes_in(node_set.name) if values else 0),
                ("values that enter a neuron", self.requirements.incoming, values),
            )
            for what, most, found in limits:
                if found > most:
                    raise ModelError(
                        f"node set {node_set.name}",
                        expected=f"at most {most} {what}, as in the training networks",
                        found=str(found),
                        hint="Use a model that reads layers of any width, such as ng-gnn.",
                    )

    def forward(self, networks: Networks) -> TokenState:
        """Encode the tokens of every network."""
        tokens = []
        for graph in networks.normal.parts:
            held = neuron_values(graph)
            filled = [
                F.pad(v, (0, self.requirements.incoming - v.shape[-1])) for v in held.values()
            ]
            states = self.values(torch.cat(filled, dim=1)) + self._positions(graph.spec, held)
            whole = self.whole.expand(graph.batch_size, 1, -1)
            tokens.append(self.encoder(torch.cat([whole, states], dim=1)))
        return TokenState(
            [states[:, 1:] for states in tokens], torch.cat([states[:, 0] for states in tokens])
        )

    def _positions(self, spec: GraphSpec, held: dict[int, Tensor]) -> Float[Tensor, "tokens width"]:
        """The vectors of every token's layer and place."""
        layers, places = token_positions(spec, list(held))
        device = self.place.weight.device
        found: Tensor = self.layer(layers.to(device)) + self.place(places.to(device))
        return found

    def make_readout(self) -> Readout:
        """The state of the token that stands for the network."""
        return _Whole(self.width)

    def make_changes(self) -> ChangesHead:
        """A linear map from each token to a change of its own values."""
        return TokenChanges(self.requirements, self.width)


class _Whole(Readout):
    """The state of the token that stands for the network."""

    def forward(self, networks: Networks, state: TokenState) -> Float[Tensor, "batch width"]:
        """Bring the vectors to the order of the batch."""
        return networks.in_order(state.pooled)


class TokenChanges(ChangesHead):
    """From each token to a change of its neuron's incoming weights and own features.

    Args:
        requirements: the networks to be edited.
        width: channels of a token.
    """

    def __init__(self, requirements: Requirements, width: int) -> None:
        super().__init__()
        self.channels = max(requirements.node_features, 1)
        self.last = nn.Linear(width, requirements.incoming)

    def forward(self, networks: Networks, state: TokenState) -> Changes:
        """Compute the changes."""
        nodes: dict[tuple[int, int], Tensor] = {}
        edges: dict[tuple[int, int], Tensor] = {}
        for part, (graph, tokens) in enumerate(
            zip(networks.normal.parts, state.tokens, strict=True)
        ):
            own, entering = cut_values(graph.spec, self.last(tokens))
            nodes.update({(part, place): value for place, value in own.items()})
            edges.update({(part, place): value for place, value in entering.items()})
        return placed_changes(networks, self.channels, nodes, edges)


def token_positions(
    spec: GraphSpec, places: list[int]
) -> tuple[Int[Tensor, " tokens"], Int[Tensor, " tokens"]]:
    """The layer of every token (0 input, 1 output, then the hidden ones) and its place there.

    Output node sets are one layer, and input node sets are, so that their places go on.
    """
    hidden = [i for i, node_set in enumerate(spec.node_sets) if node_set.role == "hidden"]
    ends = {"input": 0, "output": 1}
    start = {0: 0, 1: 0}
    layers, numbers = [], []
    for i in places:
        node_set = spec.node_sets[i]
        size = spec.nodes_in(node_set.name)
        layer = ends[node_set.role] if node_set.role != "hidden" else 2 + hidden.index(i)
        first = start.get(layer, 0)
        layers.append(torch.full((size,), layer))
        numbers.append(torch.arange(first, first + size))
        start[layer] = first + size
    return torch.cat(layers), torch.cat(numbers)
