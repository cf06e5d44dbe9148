"""Batches of networks of one spec and of several."""

from __future__ import annotations

import torch

from tests.graph.strategies import random_stacked
from weightspace.graph import MixedGraph, NeuralGraph, chain_spec


def mixed_batch(several: bool, dtype: torch.dtype = torch.float64) -> MixedGraph:
    """Five networks of one spec, or nine of four, two of which share it."""
    one = chain_spec([2, 4, 3, 1], activations="tanh")
    specs = [(one, 5)]
    if several:
        other, small = chain_spec([2, 4, 4, 1], activations="relu"), chain_spec([2, 1])
        specs = [(one, 2), (other, 3), (small, 2), (one, 1), (chain_spec([2, 6, 1]), 1)]
    return MixedGraph.of(
        [
            NeuralGraph.from_stacked(spec, random_stacked(spec, count, seed, dtype))
            for seed, (spec, count) in enumerate(specs)
        ]
    )
