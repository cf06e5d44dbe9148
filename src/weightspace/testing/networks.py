"""Small networks to test metanetworks on."""

from __future__ import annotations

import torch

from weightspace.graph import GraphSpec, MixedGraph, NeuralGraph, chain_spec


def sample_graph(
    spec: GraphSpec, count: int, *, seed: int = 0, dtype: torch.dtype = torch.float64
) -> NeuralGraph:
    """Networks of a spec with normal weights.

    Args:
        spec: their structure.
        count: how many.
        seed: of the weights.
        dtype: their type.

    >>> from weightspace.graph import chain_spec
    >>> sample_graph(chain_spec([2, 3, 1]), 4).batch_size
    4
    """
    generator = torch.Generator().manual_seed(seed)
    stacked = {
        p.name: torch.randn(count, *p.shape, generator=generator, dtype=torch.float64).to(dtype)
        for p in (*spec.parameters, *(item.parameter for item in spec.left_out))
    }
    return NeuralGraph.from_stacked(spec, stacked)


def sample_batches(*, several: bool, dtype: torch.dtype = torch.float64) -> list[MixedGraph]:
    """Batches of multilayer perceptrons with different activations, depths and biases.

    Args:
        several: whether one batch holds networks of several specs, with equal inputs and
            outputs; else each holds five networks of one spec.
        dtype: of the weights.

    >>> [len(batch.parts) for batch in sample_batches(several=False)]
    [1, 1, 1]
    """
    specs = [
        chain_spec([2, 5, 4, 1], activations="tanh"),
        chain_spec([2, 4, 4, 1], activations=["relu", "sine"], bias=[True, False, True]),
        chain_spec([2, 6, 1], activations="leaky_relu"),
    ]
    graphs = [
        sample_graph(spec, 2 + i if several else 5, seed=i, dtype=dtype)
        for i, spec in enumerate(specs)
    ]
    if several:
        return [MixedGraph.of([graphs[0], graphs[1], graphs[2], graphs[0]])]
    return [MixedGraph.of(graph) for graph in graphs]
