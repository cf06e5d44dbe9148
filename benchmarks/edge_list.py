"""NG-GNN's mathematics on an edge list, in PyTorch Geometric.

Every connection of every network of the batch, in both directions, is an edge of one large graph.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import MessagePassing
from torch_geometric.utils import degree, scatter

from weightspace.graph import MixedGraph, NeuralGraph
from weightspace.models import Predictor
from weightspace.nn import Networks, PNALayer


class EdgeListMessages(MessagePassing):
    """The layer's messages and their aggregates, edge by edge."""

    def __init__(self, layer: PNALayer) -> None:
        super().__init__(aggr=None)
        self.layer = layer

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        """Update the nodes."""
        found = self.propagate(edge_index, x=x, edge_attr=edge_attr)
        logs = torch.log(degree(edge_index[1], len(x)) + 1)[:, None]
        features = torch.cat([x, found, found * (logs / self.layer.delta)], dim=-1)
        return self.layer.out(self.layer.post(features))

    def message(self, x_i: Tensor, x_j: Tensor, edge_attr: Tensor) -> Tensor:
        """FiLM: scale and shift of the two nodes' map by the edge."""
        scale, shift = self.layer.film(edge_attr).chunk(2, dim=-1)
        return scale * self.layer.message(torch.cat([x_i, x_j], dim=-1)) + shift

    def aggregate(self, inputs: Tensor, index: Tensor, dim_size: int) -> Tensor:
        """Mean, minimum, maximum and deviation."""
        mean = scatter(inputs, index, dim_size=dim_size, reduce="mean")
        squares = scatter(inputs * inputs, index, dim_size=dim_size, reduce="mean")
        deviation = ((squares - mean * mean).clamp_min(0.0) + 1e-5).sqrt()
        least, most = (
            scatter(inputs, index, dim_size=dim_size, reduce=how) for how in ("min", "max")
        )
        return torch.cat([mean, least, most, deviation], dim=-1)


class EdgeListReference(torch.nn.Module):
    """NG-GNN on an edge list, with the parameters of a model.

    Args:
        model: whose parameters and readout are used.
        graph: of the networks; their edge list is made once.
    """

    def __init__(self, model: Predictor, graph: NeuralGraph) -> None:
        super().__init__()
        self.model = model
        trunk = model.trunk
        layers = [*(layer.messages for layer in trunk.layers), trunk.last]
        self.messages = torch.nn.ModuleList(EdgeListMessages(layer) for layer in layers)
        self.index, self.outputs = _edge_index(graph)

    def forward(self, graph: NeuralGraph) -> Tensor:
        """Read the networks."""
        trunk, index = self.model.trunk, self.index
        mixed = MixedGraph.of(graph)
        networks = Networks(mixed, mixed)
        sections = networks.arrangement.split(trunk.nodes(networks))
        nodes = torch.cat([sections[key] for key in sorted(sections)], dim=1).flatten(0, 1)
        weights = torch.cat([graph.edges[b.name].flatten(1, 3) for b in graph.spec.blocks], 1)
        value = trunk.edges.value
        angles = weights.flatten(0, 1) @ value.frequencies
        one = value.linear(torch.cat([angles.sin(), angles.cos()], dim=-1))
        none = torch.zeros_like(one)
        edges = trunk.edges.directions(
            torch.cat([torch.cat([one, none, one], 1), torch.cat([none, one, one], 1)])
        )
        for place, messages in enumerate(self.messages):
            nodes = messages(nodes, index, edges)
            if place == len(trunk.layers):
                break
            layer = trunk.layers[place]
            update = layer.update
            ends = update.receiver(nodes)[index[1]] + update.sender(nodes)[index[0]]
            edges = update.out(F.silu(update.edge(edges) + ends))
            nodes = F.dropout(F.silu(layer.norm(nodes)), layer.dropout, self.training)
        ends = nodes[self.outputs].view(graph.batch_size, -1)
        return self.model.last(self.model.readout.mlp(ends))


def _edge_index(graph: NeuralGraph) -> tuple[Tensor, Tensor]:
    """Senders and receivers of all edges of the batch, and the places of the output nodes."""
    spec, starts, total = graph.spec, {}, 0
    for node_set in spec.node_sets:
        starts[node_set.name] = total
        total += spec.nodes_in(node_set.name)
    pairs = [
        torch.cartesian_prod(
            starts[block.target] + torch.arange(spec.nodes_in(block.target)),
            starts[block.source] + torch.arange(spec.nodes_in(block.source)),
        )
        for block in spec.blocks
    ]
    target, source = torch.cat(pairs).T
    shifts = total * torch.arange(graph.batch_size)[:, None]
    along = torch.stack([(shifts + source).flatten(), (shifts + target).flatten()])
    last = spec.node_sets[-1].name
    places = starts[last] + torch.arange(spec.nodes_in(last))
    return torch.cat([along, along.flip(0)], dim=1), (shifts + places).flatten()
