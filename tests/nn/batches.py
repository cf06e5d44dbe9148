"""Batches of networks of one spec and of several, and how near results are."""

from __future__ import annotations

import torch
from torch import Tensor

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


def uneven_batch(name: str) -> MixedGraph:
    """One network, many, or those of :func:`mixed_batch`, with widths that fill no vector."""
    if name == "mixed":
        return mixed_batch(True, torch.float32)
    widths, count = {"one": ([2, 19, 9, 1], 1), "many": ([1, 3, 5], 13)}[name]
    spec = chain_spec(widths, activations="tanh")
    stacked = random_stacked(spec, count, 0, torch.float32)
    return MixedGraph.of(NeuralGraph.from_stacked(spec, stacked))


def close(found: Tensor, wanted: Tensor, tolerance: float) -> bool:
    """Whether two tensors differ by no more than a share of the largest value."""
    scale = wanted.abs().max().clamp_min(1e-6)
    return bool((found.double() - wanted).abs().max() <= tolerance * scale)
