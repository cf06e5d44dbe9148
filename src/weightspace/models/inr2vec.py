"""INR2Vec: rows of weights through one MLP, the largest of each feature."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.errors import ModelError
from weightspace.graph import EdgeBlock, GraphSpec, NeuralGraph
from weightspace.models.option_limits import checked_options
from weightspace.models.placed_changes import placed_changes
from weightspace.models.requirements import Requirements
from weightspace.models.trunk import Changes, ChangesHead, Option, Readout, Trunk
from weightspace.nn.networks import Networks

SIZES = (512, 512, 1024, 1024)


class RowState(NamedTuple):
    """What the encoder makes of a batch.

    Args:
        rows: ``[networks, rows, d]`` for each part.
        pooled: the largest of each feature over a network's rows.
    """

    rows: list[Tensor]
    pooled: Float[Tensor, "networks d"]


class Inr2Vec(Trunk):
    """A row-wise MLP on all tensors with a hidden layer's width, and the maximum over rows.

    De Luigi et al. 2023, "Deep learning on implicit neural representations of shapes",
    section 3; the baseline "INR2Vec (architecture)" of Navon et al. 2023, table 1. Weights and
    biases are stacked as rows of the hidden width: a hidden layer's weight gives the incoming
    weights of each of its neurons, its bias one row. The paper leaves the first and the last
    layer out; here the first layer gives a row for each input and the last one for each output,
    so that networks with one hidden layer can be read, too. Linear maps of 512, 512, 1024 and
    1024 channels with batch normalisation and ReLU: a network's output depends on its
    batch-mates in training mode, as published, and never in evaluation mode. Invariant to the
    order of rows, not to that of neurons, which also moves what is within rows.

    Args:
        requirements: the networks it reads.
        scale: of the four layers' channels; 1 as published.

    Raises:
        ModelError: the training networks have no hidden layer.

    >>> from weightspace.graph import chain_spec
    >>> from weightspace.models import Requirements
    >>> Inr2Vec(Requirements.of([chain_spec([2, 8, 8, 1])])).width
    1024
    """

    def __init__(self, requirements: Requirements, *, scale: float = 1.0) -> None:
        super().__init__(requirements)
        if requirements.neurons == 0:
            raise ModelError(
                "inr2vec",
                expected="networks with a hidden layer",
                found="none",
                hint="Use flat-mlp.",
            )
        self._options = checked_options({"scale": scale})
        sizes = [max(1, round(scale * size)) for size in SIZES]
        self.width = sizes[-1]
        self.encoder = nn.Sequential(
            *(
                nn.Sequential(nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU())
                for a, b in itertools.pairwise([requirements.neurons, *sizes])
            )
        )

    @property
    def options(self) -> dict[str, Option]:
        """The keyword arguments that make this trunk again."""
        return dict(self._options)

    def check(self, spec: GraphSpec) -> None:
        """Check that every tensor but the outputs' own has the hidden width.

        Raises:
            ModelError: naming the node set or block of another width.
        """
        super().check(spec)
        width = self.requirements.neurons
        found = [
            (f"node set {node_set.name}", f"{spec.nodes_in(node_set.name)} neurons")
            for node_set in spec.node_sets
            if node_set.role == "hidden" or (node_set.role == "input" and node_set.pieces)
            if spec.nodes_in(node_set.name) != width
        ]
        found += [
            (f"block {block.name}", f"{shape.groups} x {shape.targets} x {shape.sources}")
            for block in spec.blocks
            if block.pieces and row_side(spec, block, width) is None
            for shape in [spec.shape_of(block)]
        ]
        if found:
            raise ModelError(
                found[0][0],
                expected=f"the width {width} of all hidden layers, for rows of one length",
                found=found[0][1],
                hint="Use a model that reads layers of any width, such as ng-gnn or stat-nn.",
            )

    def forward(self, networks: Networks) -> RowState:
        """Encode the rows and pool them."""
        stacks = [stacked_rows(part, self.requirements.neurons) for part in networks.normal.parts]
        counts = [stack.shape[:2] for stack in stacks]
        encoded = self.encoder(torch.cat([stack.flatten(0, 1) for stack in stacks]))
        parts = torch.split(encoded, [networks * rows for networks, rows in counts])
        rows = [part.view(*count, -1) for part, count in zip(parts, counts, strict=True)]
        return RowState(rows, torch.cat([part.amax(dim=1) for part in rows]))

    def make_readout(self) -> Readout:
        """The pooled vector."""
        return _Pooled(self.width)

    def make_changes(self) -> ChangesHead:
        """An MLP on each row with the pooled vector, and one for the outputs' own values."""
        return RowChanges(self.requirements, self.width)


class _Pooled(Readout):
    """The pooled vector of each network."""

    def forward(self, networks: Networks, state: RowState) -> Float[Tensor, "batch width"]:
        """Bring the vectors to the order of the batch."""
        return networks.in_order(state.pooled)


class RowChanges(ChangesHead):
    """A row's change from its features and the pooled vector.

    Args:
        requirements: the networks to be edited.
        width: channels of a row's features.
    """

    def __init__(self, requirements: Requirements, width: int) -> None:
        super().__init__()
        self.requirements = requirements
        self.row = nn.Linear(width, width)
        self.pooled = nn.Linear(width, width, bias=False)
        self.last = nn.Linear(width, requirements.neurons)
        self.channels = max(requirements.node_features, 1)
        self.outputs = nn.Linear(width, requirements.outputs * self.channels)

    def forward(self, networks: Networks, state: RowState) -> Changes:
        """Compute the changes of all rows, and cut them into blocks and node sets."""
        nodes: dict[tuple[int, int], Tensor] = {}
        edges: dict[tuple[int, int], Tensor] = {}
        counts = [part.batch_size for part in networks.normal.parts]
        pooled = torch.split(state.pooled, counts)
        for place, (graph, rows, whole) in enumerate(
            zip(networks.normal.parts, state.rows, pooled, strict=True)
        ):
            hidden = F.relu(self.row(rows) + self.pooled(whole).unsqueeze(1))
            self._cut(graph, place, self.last(hidden), nodes, edges)
            self._outputs(graph, place, self.outputs(whole), nodes)
        return placed_changes(networks, self.channels, nodes, edges)

    def _cut(
        self,
        graph: NeuralGraph,
        part: int,
        rows: Tensor,
        nodes: dict[tuple[int, int], Tensor],
        edges: dict[tuple[int, int], Tensor],
    ) -> None:
        """Undo :func:`stacked_rows`."""
        spec, start, width = graph.spec, 0, self.requirements.neurons
        for place, block in enumerate(spec.blocks):
            side = row_side(spec, block, width)
            if block.pieces and side is not None:
                shape = graph.edges[block.name].movedim(side, -1).shape
                count = shape[1:-1].numel()
                own = rows[:, start : start + count].reshape(shape)
                edges[part, place] = own.movedim(-1, side)
                start += count
        for place, node_set in enumerate(spec.node_sets):
            if node_set.role != "output" and node_set.pieces:
                own = rows[:, start : start + node_set.features]
                nodes[part, place] = own.transpose(1, 2)
                start += node_set.features

    def _outputs(
        self,
        graph: NeuralGraph,
        part: int,
        values: Tensor,
        nodes: dict[tuple[int, int], Tensor],
    ) -> None:
        """The changes of the output neurons' own values."""
        values, start = values.unflatten(1, (-1, self.channels)), 0  # type: ignore[no-untyped-call]
        for place, node_set in enumerate(graph.spec.node_sets):
            if node_set.role == "output":
                count = graph.spec.nodes_in(node_set.name)
                nodes[part, place] = values[:, start : start + count]
                start += count


def stacked_rows(graph: NeuralGraph, width: int) -> Float[Tensor, "networks rows width"]:
    """All tensors of networks as rows: blocks first, then the neurons' own features.

    Args:
        graph: networks of one spec.
        width: the length of a row. A dense block between hidden layers gives the incoming
            weights of each neuron; one with only one end of that width a row for each neuron
            of the other end; each feature channel gives rows of its own.
    """
    rows = []
    for block in graph.spec.blocks:
        side = row_side(graph.spec, block, width)
        if block.pieces and side is not None:
            rows.append(graph.edges[block.name].movedim(side, -1).flatten(1, 3))
    for node_set in graph.spec.node_sets:
        if node_set.role != "output" and node_set.pieces:
            rows.append(graph.nodes[node_set.name].transpose(1, 2))
    return torch.cat(rows, dim=1)


def row_side(spec: GraphSpec, block: EdgeBlock, width: int) -> int | None:
    """Which dimension of a block's edge features a row runs along: sources, targets, groups."""
    shape = spec.shape_of(block)
    sizes = {3: shape.sources, 2: shape.targets, 1: shape.groups}
    return next((side for side, size in sizes.items() if size == width), None)
