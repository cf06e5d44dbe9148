"""What the plain dense references of metanetworks share.

Each reference (``plain_*.py``) is a model's mathematics in straightforward PyTorch for networks
that are chains: one dense tensor for each layer of weights and of neurons, broadcasting, every
temporary written out. It has the model's own parameters, and its outputs must agree.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from weightspace.graph import MixedGraph, NeuralGraph
from weightspace.models import Predictor
from weightspace.nn import Networks


class PlainReference(nn.Module):
    """A model once more, without any of the package's layers.

    Args:
        model: whose parameters, node encoder and readout MLP are used.
    """

    def __init__(self, model: Predictor) -> None:
        super().__init__()
        self.model = model

    def forward(self, graph: NeuralGraph) -> Tensor:
        """Read networks of one chain."""
        model = self.model
        networks = Networks(model.trunk.prepare(MixedGraph.of(graph)).batch, model.normaliser)
        result: Tensor = model.last(model.readout.mlp(self.pooled(networks)))
        return result

    def pooled(self, networks: Networks) -> Tensor:
        """The vector of each network that the readout's MLP is given."""
        raise NotImplementedError

    def spared(self, networks: Networks) -> float:
        """Multiply-adds of a forward pass that a reordering of its linear maps would spare."""
        return 0.0


def by_layer(networks: Networks, nodes: Tensor) -> list[Tensor]:
    """Cut states of nodes into ``[batch, neurons, d]`` for each node set."""
    sections = networks.arrangement.split(nodes)
    return [sections[key] for key in sorted(sections)]


def weights(networks: Networks) -> list[Tensor]:
    """The normalised weights, ``[batch, targets, sources, 1]`` for each layer."""
    (graph,) = networks.normal.parts
    return [graph.edges[block.name].squeeze(1) for block in graph.spec.blocks]


def fourier(layer: nn.Module, values: Tensor) -> Tensor:
    """The random Fourier features of values."""
    angles = values @ layer.frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


def matrix_flops(reference: PlainReference, graph: NeuralGraph, networks: int = 2) -> float:
    """Floating-point operations of the necessary matrix products of a training step.

    Counted on the reference's own products, forward and backward, less those that a reordering
    of linear maps spares. All products grow evenly with the batch, so a few networks tell.
    """
    from torch.utils.flop_counter import FlopCounterMode  # noqa: PLC0415 (slow to load)

    some = graph[list(range(networks))]
    with FlopCounterMode(display=False) as counter:
        reference(some).square().sum().backward()
    reference.zero_grad(set_to_none=True)
    mixed = MixedGraph.of(some)
    # a forward product comes back as two: for its input and for its weight
    spared = 2 * 3 * reference.spared(Networks(mixed, mixed))
    return (counter.get_total_flops() - spared) * graph.batch_size / networks


def on_both(
    function: Callable[[Tensor], Tensor], pairs: list[tuple[Tensor, Tensor]]
) -> list[tuple[Tensor, Tensor]]:
    """Apply a function to both tensors of every pair."""
    return [(function(one), function(other)) for one, other in pairs]
