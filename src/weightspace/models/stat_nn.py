"""StatNN: the statistics of each layer's weights and biases."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.graph import GraphSpec, MixedGraph, NeuralGraph, NodeSet
from weightspace.models.option_limits import checked_options
from weightspace.models.predict_only import PredictOnly
from weightspace.models.requirements import Requirements
from weightspace.nn.hidden_layers import hidden_layers
from weightspace.nn.networks import Networks

QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
STATISTICS = 2 + len(QUANTILES)


class StatNN(PredictOnly):
    """An MLP on mean, variance and quantiles of every layer's weights and of its biases.

    Unterthiner et al. 2020, "Predicting neural network accuracy from weights": the quantiles 0,
    25, 50, 75 and 100; see :func:`layer_statistics`, which can also be given to other
    regressors, such as the paper's gradient-boosted trees. Each statistic is standardised by
    the training networks'. Networks of other depths have zeros for the layers they lack.
    Invariant to far more than the symmetry: any exchange of values within a layer.

    Args:
        requirements: the networks it reads.
        width: neurons of each hidden layer.
        layers: hidden layers.
        dropout: rate after each hidden layer.

    >>> from weightspace.graph import chain_spec
    >>> from weightspace.models import Requirements
    >>> StatNN(Requirements.of([chain_spec([2, 4, 1])])).statistics
    28
    """

    mean: Tensor
    deviation: Tensor

    def __init__(
        self,
        requirements: Requirements,
        *,
        width: int = 256,
        layers: int = 3,
        dropout: float = 0.2,
    ) -> None:
        options = checked_options({"width": width, "layers": layers, "dropout": dropout})
        super().__init__(requirements, name="stat-nn", width=width, options=options)
        shape = (requirements.hidden + 1, 2, STATISTICS)
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("deviation", torch.ones(shape))
        self.hidden = hidden_layers(self.statistics, width, layers, dropout=dropout)

    @property
    def statistics(self) -> int:
        """How many values the MLP reads."""
        return self.mean.numel()

    def fit(self, batch: MixedGraph) -> None:
        """Take the mean and deviation of every statistic over the training networks."""
        with torch.no_grad():
            found = torch.cat([self._of(part).double() for part in batch.parts])
            deviation = found.std(dim=0, correction=0)
            self.mean.copy_(found.mean(dim=0))
            self.deviation.copy_(torch.where(deviation > 1e-12, deviation, 1.0))

    def forward(self, networks: Networks) -> Float[Tensor, "networks width"]:
        """Read the networks: the last hidden layer."""
        found = torch.cat([self._of(part) for part in networks.own.parts])
        hidden: Tensor = self.hidden(((found - self.mean) / self.deviation).flatten(1))
        return hidden

    def _of(self, graph: NeuralGraph) -> Float[Tensor, "networks layers two statistics"]:
        return layer_statistics(graph, layers=self.requirements.hidden + 1)


def layer_statistics(
    graph: NeuralGraph, *, layers: int | None = None
) -> Float[Tensor, "networks layers two statistics"]:
    """Mean, variance and quantiles of every layer's weights and of its biases.

    A layer is a hidden node set with all connections that enter it; all output node sets are
    the last one. Quantiles are interpolated linearly.

    Args:
        graph: networks of one spec, with their own weights.
        layers: how many layers the result has; layers the networks lack are zeros, and the
            output layer is the last in any case. As many as the networks have if not given.

    >>> from weightspace.graph import chain_spec
    >>> spec = chain_spec([2, 4, 1])
    >>> state = {p.name: torch.ones(p.shape) for p in spec.parameters}
    >>> layer_statistics(NeuralGraph.from_states(spec, [state])).shape
    torch.Size([1, 2, 2, 7])
    """
    places = layer_places(graph.spec)
    total = layers or max(places.values()) + 1
    outputs = {n.name for n in graph.spec.of_role("output")}
    values: dict[tuple[int, int], list[Tensor]] = {}
    for node_set in graph.spec.node_sets:
        layer = total - 1 if node_set.name in outputs else places[node_set.name]
        for kind, tensors in enumerate(_values(graph, node_set)):
            values.setdefault((layer, kind), []).extend(tensors)
    empty = next(iter(graph.nodes.values())).new_zeros(graph.batch_size, STATISTICS)
    rows = [
        summary(torch.cat(tensors, dim=1)) if tensors else empty
        for tensors in (values.get((i, kind), []) for i in range(total) for kind in range(2))
    ]
    return torch.stack(rows, dim=1).reshape(graph.batch_size, total, 2, STATISTICS)


def layer_places(spec: GraphSpec) -> dict[str, int]:
    """The layer that each node set belongs to; what stands at the inputs is in the first."""
    hidden = {node_set.name: i for i, node_set in enumerate(spec.of_role("hidden"))}
    last = {node_set.name: len(hidden) for node_set in spec.of_role("output")}
    return {node_set.name: {**hidden, **last}.get(node_set.name, 0) for node_set in spec.node_sets}


def _values(graph: NeuralGraph, node_set: NodeSet) -> tuple[list[Tensor], list[Tensor]]:
    """All weights of the connections that enter a node set, and all its own features."""
    weights = [
        graph.edges[block.name].flatten(1)
        for block in graph.spec.blocks
        if block.target == node_set.name and block.pieces
    ]
    own = graph.nodes[node_set.name].flatten(1)
    return weights, [own] if own.shape[1] else []


def summary(
    values: Float[Tensor, "networks values"], quantiles: Sequence[float] = QUANTILES
) -> Float[Tensor, "networks statistics"]:
    """Mean, variance and quantiles of each row.

    >>> summary(torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0]]))
    tensor([[3., 2., 1., 2., 3., 4., 5.]])
    """
    ordered = values.sort(dim=1).values
    place = torch.tensor(quantiles, dtype=torch.float64) * (values.shape[1] - 1)
    low, high = place.floor().long(), place.ceil().long()
    between = (place - low).to(values)
    found = torch.lerp(
        ordered[:, low.to(values.device)], ordered[:, high.to(values.device)], between
    )
    moments = torch.stack([values.mean(dim=1), values.var(dim=1, correction=0)], dim=1)
    return torch.cat([moments, found], dim=1)
