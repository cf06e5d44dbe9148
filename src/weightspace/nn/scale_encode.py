"""From a graph's features to states that carry their neurons' factors."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.graph import NeuralGraph
from weightspace.graph.spec import EdgeBlock, NodeSet
from weightspace.nn.arrangement import Arrangement, Run
from weightspace.nn.encode import NodeIdentity, Sizes
from weightspace.nn.marks import Marks, weighed_channels
from weightspace.nn.networks import Networks
from weightspace.nn.pieces import Direction
from weightspace.nn.scale_nets import linear_map, settled

SOFTENING = 0.5
"""Where the bounded reciprocal of a weight is largest, in units of its layer's deviation."""


class ScaleNodes(nn.Module):
    """The first states of nodes, and what is known of them otherwise.

    Features that carry a node's factor (biases) become its state by a linear map without bias.
    All else (who the node is, its activation, features that carry none) is invariant; it is the
    state, too, where no factor acts.

    Args:
        sizes: the networks to be read.
        width: channels of the states.
    """

    def __init__(self, sizes: Sizes, *, width: int) -> None:
        super().__init__()
        self.channels = max(sizes.node_features, 1)
        self.weighed = linear_map(self.channels, width)
        self.plain = linear_map(self.channels, width)
        self.identity = NodeIdentity(sizes, width=width)

    def forward(
        self, networks: Networks, marks: Marks
    ) -> tuple[Float[Tensor, "nodes d"], Float[Tensor, "nodes d"]]:
        """Encode the nodes: states, and invariants."""
        features = self._without_shift(networks)
        weighed = weighed_channels(networks.arrangement, self.channels).to(features)
        plain = networks.node_features(self.channels) * (1 - weighed)
        given = self.identity(networks) + self.plain(plain)
        states = self.weighed(features * weighed) + marks.plain.to(features) * given
        return settled(marks, states), given

    def _without_shift(self, networks: Networks) -> Float[Tensor, "nodes channels"]:
        """Features in units of their deviation; a mean taken off would not carry factors."""
        parts = []
        for section in networks.arrangement.sections:
            graph = networks.own.parts[section.part]
            node_set = graph.spec.node_sets[section.place]
            values = in_deviations(networks.normal.parts[section.part], graph, node_set)
            parts.append(nn.functional.pad(values, (0, self.channels - values.shape[-1])))
        return torch.cat(parts)


class ScaleEdges(nn.Module):
    """The features of edges along (``w``) and against.

    Along a connection features carry ``q_i / q_j``. Against it they must carry ``q_j / q_i``:
    for signs the edge itself does. For scales its reciprocal would, but is unbounded; since
    networks come in canonical scales, any function of their weights is exact there, and the
    bounded ``w / (w^2 + eps^2)`` stands beside the weight itself. Positions of a kernel are
    channels, in the common layout of all blocks.

    Args:
        sizes: the networks to be read.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes

    @property
    def widths(self) -> tuple[int, int]:
        """Channels along and against."""
        return self.sizes.edge_features, 2 * self.sizes.edge_features

    def forward(
        self, networks: Networks, marks: Marks, *, against: bool
    ) -> tuple[Float[Tensor, "edges features"], ...]:
        """Read the features along, and against if wanted."""
        along = torch.cat([self._features(networks, run) for run in networks.arrangement.runs])
        if not against:
            return (along,)
        scale = _scaled(networks.arrangement, marks).to(along)
        reciprocal = along / (along.square() + SOFTENING**2) * scale
        return along, torch.cat([along, reciprocal], dim=-1)

    def _features(self, networks: Networks, run: Run) -> Float[Tensor, "edges features"]:
        """A run's weights in units of their deviation, in the common layout."""
        parts = []
        for member in run.members:
            graph = networks.own.parts[member.part]
            block = graph.spec.blocks[member.block]
            parts.append(in_deviations(networks.normal.parts[member.part], graph, block))
        values = torch.cat(parts)
        channels = self.sizes.edge_channels(run.layout)
        if channels == list(range(self.sizes.edge_features)):
            return values
        wide = values.new_zeros(len(values), self.sizes.edge_features)
        return wide.index_copy(1, torch.tensor(channels, device=values.device), values)


def in_deviations(
    normal: NeuralGraph, own: NeuralGraph, owner: NodeSet | EdgeBlock
) -> Float[Tensor, "rows features"]:
    """A layer's own weights, divided by their deviation alone."""
    values = own.edges[owner.name] if isinstance(owner, EdgeBlock) else own.nodes[owner.name]
    rows = values.flatten(0, -2)
    if normal.statistics is None or not owner.pieces:
        return rows
    return rows / normal.statistics.scale_of(own.spec, owner).to(rows)


def _scaled(arrangement: Arrangement, marks: Marks) -> Float[Tensor, "edges 1"]:
    """1 for connections with an end that scales act on."""
    rows = []
    for run in arrangement.runs:
        target = torch.as_tensor(marks.at(Direction(run, 0))[1])
        source = torch.as_tensor(marks.at(Direction(run, 1))[1])
        both = torch.maximum(target, source).float()
        shape = (run.lead, run.targets, run.sources, 1)
        rows.append(both.expand(shape).reshape(-1, 1))
    return torch.cat(rows)
