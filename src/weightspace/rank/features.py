"""Features of networks: one row of numbers for each, whatever its architecture."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import torch

from weightspace.find import CHANNELS, Network, describe
from weightspace.graph import Batch, MixedGraph, NeuralGraph
from weightspace.models.stat_nn import layer_statistics

Array = npt.NDArray[np.float64]
DEPTHS = 5
"""Places from the first layer to the last at which layers are described."""
_KINDS = ("weights", "biases")
_NAMES = ("mean", "variance", "least", "quartile 1", "median", "quartile 3", "greatest")
_WHOLE = ("log10 values", "layers", "log10 inputs", "log10 outputs", "log10 widest layer")
FEATURES: tuple[str, ...] = (
    *_WHOLE,
    *(
        f"depth {place / (DEPTHS - 1):g}: {name} of {kind}"
        for place in range(DEPTHS)
        for kind in _KINDS
        for name in _NAMES
    ),
    *(f"{channel} (descriptor)" for channel in CHANNELS),
)
"""The name of each feature."""
_OF_SIZE = ("log10 values", "log10 matrices", "width", "inputs", "outputs", "rows", "columns")
SIZES: tuple[int, ...] = tuple(
    place
    for place, name in enumerate(FEATURES)
    if name in _WHOLE or ("log10" in name and any(size in name for size in _OF_SIZE))
)
"""Which features tell the architecture alone."""


def features_of(networks: Batch) -> Array:
    """Describe every network of a batch by a row of :data:`FEATURES`.

    The statistics of Unterthiner et al. 2020 (mean, variance and quantiles of each layer's
    weights and biases), interpolated by relative depth, so that networks of any depth are
    compared; ``arcsinh(10 x)`` of each tames heavy tails. Sizes stand in front, the descriptor of
    :func:`weightspace.find.describe` behind. All of it is unchanged by permutations of neurons.
    Networks with weights that are not finite have features that are not.

    >>> from weightspace.graph import chain_spec
    >>> from weightspace.testing import sample_graph
    >>> features_of(sample_graph(chain_spec([2, 4, 1]), 3)).shape == (3, len(FEATURES))
    True
    """
    mixed = MixedGraph.of(networks)
    with torch.no_grad():
        parts = [torch.from_numpy(_of_part(part)) for part in mixed.parts]
    ordered: Array = mixed.in_order(torch.cat(parts)).numpy()
    return ordered


def features_of_all(batches: Iterable[Batch]) -> Array:
    """Describe the networks of several batches, one after the other."""
    found = [features_of(batch) for batch in batches]
    return np.concatenate([np.zeros((0, len(FEATURES))), *found])


def _of_part(graph: NeuralGraph) -> Array:
    statistics = layer_statistics(graph).double().flatten(2).cpu().numpy()
    count, layers, channels = statistics.shape
    depth = np.linspace(0, 1, layers) if layers > 1 else np.array([0.5])
    at = np.linspace(0, 1, DEPTHS)
    right = np.clip(np.searchsorted(depth, at), 1, max(layers - 1, 1))
    left = right - 1
    right = np.minimum(right, layers - 1)
    gap = depth[right] - depth[left]
    share = np.clip(np.divide(at - depth[left], gap, out=np.zeros(DEPTHS), where=gap > 0), 0, 1)
    between = statistics[:, left] * (1 - share)[:, None] + statistics[:, right] * share[:, None]
    whole = np.repeat(_sizes(graph, layers)[None], count, axis=0)
    plain = np.arcsinh(10 * between).reshape(count, DEPTHS * channels)
    rows: Array = np.concatenate([whole, plain, _descriptors(graph)], axis=1)
    return rows


def _descriptors(graph: NeuralGraph) -> Array:
    stacked = graph.stacked_state()
    rows = np.full((graph.batch_size, len(CHANNELS)), np.nan)
    for place in range(graph.batch_size):
        state = {name: tensor[place] for name, tensor in stacked.items()}
        if all(bool(tensor.isfinite().all()) for tensor in state.values()):
            rows[place] = describe(Network.of(state, graph.spec))
    return rows


def _sizes(graph: NeuralGraph, layers: int) -> Array:
    spec = graph.spec
    sizes = {n.name: spec.nodes_in(n.name) for n in spec.node_sets}
    ends = [sum(sizes[n.name] for n in spec.of_role(role)) for role in ("input", "output")]
    numbers = [spec.parameter_count, *ends, max(sizes.values())]
    values, inputs, outputs, widest = np.log10(np.maximum(numbers, 1))
    return np.array([values, layers, inputs, outputs, widest], dtype=np.float64)
