"""The network within a learned optimiser: from features of parameters to their update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from weightspace.graph import ACTIVATION_COUNT, GraphSpec, MixedGraph, NeuralGraph
from weightspace.models.ng_gnn import NGGNNLayer
from weightspace.nn.arrangement import ROLES, Run
from weightspace.nn.edge_maps import DirectedMap
from weightspace.nn.networks import Networks
from weightspace.tasks.optimising.features import (
    CHANNELS,
    TIMESCALES,
    Memory,
    Stacked,
    channels,
    step_features,
)

STEP_SIZE, GAIN = 0.01, 0.1
RANGE = 2.0
"""Of the log-magnitude."""


class OptimiserNetwork(nn.Module):
    """Message passing over the optimised network's graph, and an update of every parameter.

    Kofinas et al. 2024, section 4.4, with the features of Metz et al. 2020
    (:func:`~weightspace.tasks.optimising.features.channels`): the parameters of a neuron are
    features of its node, those of a connection features of its edge, whatever the size of
    kernels; NG-GNN layers; then for each parameter a direction ``d`` and a log-magnitude ``m``
    from its own features and the states around it:

        update = -step_size * exp(r tanh(gain * m / r)) * (a + tanh(gain * d))

    with Adam's direction ``a``, so that an untrained optimiser is Adam, and with bounds, so that no
    update is larger than several times Adam's. Nothing depends on the sizes of layers: it can be
    applied to wider and deeper networks than it was trained on.
    Equivariant: permuted neurons get permuted updates.

    Args:
        width: channels of node and edge states.
        layers: message-passing layers; with 0 every parameter is by itself.

    >>> from weightspace.graph import chain_spec
    >>> spec = chain_spec([2, 4, 1], activations="tanh")
    >>> theta = {p.name: torch.randn(3, *p.shape) for p in spec.parameters}
    >>> memory = Memory.of(theta).after(theta)
    >>> OptimiserNetwork()(spec, theta, theta, memory)["0.weight"].shape
    torch.Size([3, 4, 2])
    """

    def __init__(self, *, width: int = 16, layers: int = 2) -> None:
        super().__init__()
        self.width = width
        self.nodes = nn.Linear(CHANNELS, width)
        self.edges = nn.Linear(CHANNELS, width)
        self.roles = nn.Embedding(len(ROLES), width)
        self.activations = nn.Embedding(ACTIVATION_COUNT, width)
        self.time = nn.Linear(len(TIMESCALES), width)
        # The mean of log(degree + 1) is about 3 for layers of 8 to 64 neurons.
        self.layers = nn.ModuleList(
            NGGNNLayer(width, delta=3.0, dropout=0.0) for _ in range(layers)
        )
        self.node_head = _head(width + CHANNELS, width)
        self.edge_head = _head(2 * width + CHANNELS, width)

    def forward(
        self, spec: GraphSpec, parameters: Stacked, gradients: Stacked, memory: Memory
    ) -> dict[str, Tensor]:
        """Compute the updates of networks of one spec.

        Args:
            spec: their structure.
            parameters: ``[networks, *shape]`` each; those without a gradient are not updated.
            gradients: of the loss of each network.
            memory: with these gradients in it.

        Returns:
            What is to be added to each parameter that has a gradient.
        """
        features = [
            _networks(spec, channel, parameters)
            for channel in channels(
                {name: parameters[name] for name in gradients}, gradients, memory
            )
        ]
        first, arrangement = features[0], features[0].arrangement
        raw_edges = [_stacked([f.edge_features(run) for f in features]) for run in arrangement.runs]
        width = max(f.shape[-1] for f in first.own.parts[0].nodes.values())
        raw_nodes = _stacked([f.node_features(max(width, 1)) for f in features])
        time = self.time(step_features(memory.step).to(raw_nodes))
        nodes = self.nodes(raw_nodes).mean(1) + time + self.roles(arrangement.roles)
        nodes = nodes + self.activations(arrangement.activations)
        edges = torch.cat([self.edges(raw).mean(1) for raw in raw_edges]) + time
        states = edges.expand(2, *edges.shape)
        written = _identity(self.width, edges)
        for layer in self.layers:
            nodes, states, written = layer(arrangement, nodes, states, written)
        both = torch.cat([*written(states)], dim=-1)
        changed = self._changed(first, nodes, both, raw_nodes, raw_edges)
        return self._updates(spec, changed, memory, gradients)

    def _changed(
        self,
        networks: Networks,
        nodes: Tensor,
        edges: Tensor,
        raw_nodes: Tensor,
        raw_edges: Sequence[Tensor],
    ) -> list[NeuralGraph]:
        """Direction and magnitude of every feature, each as a graph."""
        arrangement = networks.arrangement
        node_values = self.node_head(_beside(nodes, raw_nodes))
        edge_values = [
            self.edge_head(_beside(edges[run.edges], raw))
            for run, raw in zip(arrangement.runs, raw_edges, strict=True)
        ]
        return [
            _graph_of(
                networks,
                node_values[..., i],
                list(zip(arrangement.runs, [v[..., i] for v in edge_values], strict=True)),
            )
            for i in range(2)
        ]

    def _updates(
        self,
        spec: GraphSpec,
        changed: Sequence[NeuralGraph],
        memory: Memory,
        gradients: Stacked,
    ) -> dict[str, Tensor]:
        direction, magnitude = (graph.stacked_state() for graph in changed)
        held = {parameter.name for parameter in spec.parameters}
        adam, updates = memory.direction(), {}
        for name in gradients:
            if name in held:
                towards = adam[name] + torch.tanh(GAIN * direction[name])
                log_size = RANGE * torch.tanh(GAIN * magnitude[name] / RANGE)
                updates[name] = -STEP_SIZE * torch.exp(log_size) * towards
            else:
                updates[name] = -STEP_SIZE * adam[name]
        return updates


def _head(inputs: int, width: int) -> nn.Sequential:
    """An MLP whose values are small at first."""
    last = nn.Linear(width, 2)
    nn.init.normal_(last.weight, std=1e-2)
    nn.init.zeros_(last.bias)
    return nn.Sequential(nn.Linear(inputs, width), nn.SiLU(), last)


def _networks(spec: GraphSpec, channel: Mapping[str, Tensor], like: Stacked) -> Networks:
    """One feature of all parameters as a batch of networks; zero where there is none."""
    everything = {
        name: channel.get(name, torch.zeros_like(tensor)) for name, tensor in like.items()
    }
    batch = MixedGraph.of([NeuralGraph.from_stacked(spec, everything)])
    return Networks(batch, batch)


def _stacked(values: Sequence[Tensor]) -> Tensor:
    """``[items, features, channels]``."""
    return torch.stack(list(values), dim=-1)


def _beside(states: Tensor, raw: Tensor) -> Tensor:
    """Each item's state beside every one of its features' channels."""
    return torch.cat([states.unsqueeze(1).expand(-1, raw.shape[1], -1), raw], dim=-1)


def _identity(width: int, like: Tensor) -> DirectedMap:
    eye = torch.eye(width).to(like)
    return DirectedMap(eye.expand(2, width, width), like.new_zeros(2, width))


def _graph_of(
    networks: Networks, nodes: Tensor, edges: Sequence[tuple[Run, Tensor]]
) -> NeuralGraph:
    """Values of nodes and edges as a graph of the networks' one part."""
    (graph,) = networks.own.parts
    found_nodes = {
        graph.spec.node_sets[place].name: values
        for (_, place), values in networks.arrangement.split(nodes).items()
    }
    found_nodes = {
        name: values[..., : graph.nodes[name].shape[-1]] for name, values in found_nodes.items()
    }
    found_edges = {}
    for run, values in edges:
        for member, own in zip(run.members, networks.split_edges(run, values), strict=True):
            found_edges[graph.spec.blocks[member.block].name] = own
    return replace(graph, nodes=found_nodes, edges=found_edges)
