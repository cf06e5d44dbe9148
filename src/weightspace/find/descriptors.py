"""Descriptors: a vector of fixed length for any network, from its weights alone.

Two networks that differ by the order of neurons, or by their signs or scales where the
architecture allows these, have the same descriptor up to rounding: it is made of quantities that
such changes leave alone, on a form of the network that has no free scales.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.find.matrices import Layer, parts_of
from weightspace.find.network import Network

DEPTHS = 5
"""Places from the first layer to the last at which layers are described."""

SAME = 1e-3
"""Descriptors that are closer may be of copies; the rounding of single precision stays below."""

_FLOOR = 1e-8


def describe(network: Network) -> Float[np.ndarray, " channels"]:
    """Describe a network.

    The first channels are of the network as a whole. The others describe its matrices, at five
    places from the first layer to the last: statistics of layers are interpolated by relative
    depth, so networks of any depth are compared. :data:`CHANNELS` names each.

    Every channel is a logarithm to base ten, a share, or a ratio within [0, 1], so that
    differences of equal size mean about as much everywhere, in every folder: nothing is fitted
    to a set of networks.

    Args:
        network: of any architecture; where its structure is known, its group of symmetries is
            respected, else the order of rows and columns of each tensor by itself.

    >>> from weightspace.graph import SymmetryGroup, chain_spec
    >>> spec = chain_spec([2, 8, 1], activations="relu")
    >>> state = {p.name: torch.randn(p.shape) for p in spec.parameters}
    >>> element = SymmetryGroup(spec).sample(torch.Generator(), kinds=("permutation", "scale"))
    >>> pair = [Network.of(s, spec) for s in (state, element.act_state(state))]
    >>> bool(np.linalg.norm(describe(pair[0]) - describe(pair[1])) < SAME)
    True
    """
    parts = parts_of(network)
    whole = _whole(network, parts.layers, parts.diagonals)
    if not parts.layers:
        return np.concatenate([whole, np.zeros(DEPTHS * len(_LAYER))]).astype(np.float32)
    rows = np.array([_row(layer) for layer in parts.layers])
    at = np.linspace(0, 1, DEPTHS)
    depth = np.linspace(0, 1, len(rows)) if len(rows) > 1 else np.array([0.5])
    columns = [np.interp(at, depth, column) for column in rows.T]
    return np.concatenate([whole, *np.array(columns).T]).astype(np.float32)


def _whole(network: Network, layers: list[Layer], diagonals: list[Tensor]) -> np.ndarray:
    values = sum(t.numel() for t in network.state.values() if t.is_floating_point())
    rows = [float(layer.weights.shape[0] * layer.weights.shape[1]) for layer in layers] or [1.0]
    first = float(layers[0].weights.shape[2]) if layers else 1.0
    scales = torch.cat(diagonals).abs() if diagonals else torch.zeros(0, dtype=torch.float64)
    numbers = [
        values, len(layers), np.mean(rows), np.max(rows), first, rows[-1],
    ]  # fmt: skip
    norms = [_rms(scales), float(scales.std()) if len(scales) > 1 else 0.0]
    return np.array([*np.log10(np.maximum(numbers, 1.0)), *norms])


def _row(layer: Layer) -> list[float]:
    """One layer's channels, in the order of :data:`_LAYER`."""
    return [value for measure in _LAYER_MEASURES for value in measure(layer)]


def _sizes(layer: Layer) -> list[float]:
    _, rows, columns = layer.weights.shape
    return [float(np.log10(rows)), float(np.log10(columns))]


def _norms(layer: Layer) -> list[float]:
    """The root mean squares of weights and vectors."""
    return [_log(_rms(layer.weights)), _log(_rms(layer.vectors) + 1e-4)]


def _spectrum(layer: Layer) -> list[float]:
    """Schatten norms of orders 4, 8 and 16 against that of order 2: how few directions count.

    They are traces of powers of the Gram matrix, which need products alone.
    """
    weights = layer.weights
    if weights.shape[1] > weights.shape[2]:
        weights = weights.mT
    weights = weights / weights.square().sum().sqrt().clamp_min(1e-300)
    gram = weights @ weights.mT
    found = []
    for order in (2, 4, 8):
        found.append(_log(float(gram.square().sum()) ** (1 / order)))
        gram = gram @ gram
    return found


def _spread(layer: Layer) -> list[float]:
    """Quantiles of absolute weights over their root mean square, fourth moment, zeros."""
    size = layer.weights.abs().flatten()
    rms = _rms(size)
    if rms == 0:
        return [0.0] * (len(_QUANTILES) + 1) + [1.0]
    quantiles = _quantiles(size / rms, _QUANTILES)
    fourth = float((size / rms).pow(4).mean())
    return [*(q / (1 + q) for q in quantiles), _log(fourth), float((size == 0).double().mean())]


def _neurons(layer: Layer) -> list[float]:
    """Quantiles of the norms of rows and of columns over their root mean square."""
    found = []
    for dimension in (2, 1):
        norms = layer.weights.square().sum(dimension).sqrt().flatten()
        rms = _rms(norms)
        ratios = norms / rms if rms else norms
        found += [q / (1 + q) for q in _quantiles(ratios, _SHARES)]
    return found


_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
_SHARES = (0.1, 0.5, 0.9)
_LAYER_MEASURES: tuple[Callable[[Layer], list[float]], ...] = (
    _sizes, _norms, _spectrum, _spread, _neurons,
)  # fmt: skip
_LAYER = (
    "log10 rows", "log10 columns",
    "log10 rms of weights", "log10 rms of biases",
    "log10 Schatten-4 share", "log10 Schatten-8 share", "log10 Schatten-16 share",
    *(f"|weight| quantile {q:g}" for q in _QUANTILES), "log10 fourth moment", "share of zeros",
    *(f"row norm quantile {q:g}" for q in _SHARES),
    *(f"column norm quantile {q:g}" for q in _SHARES),
)  # fmt: skip
_WHOLE = (
    "log10 values", "log10 matrices", "log10 mean width", "log10 largest width",
    "log10 inputs", "log10 outputs", "rms of norm scales", "spread of norm scales",
)  # fmt: skip
CHANNELS: tuple[str, ...] = (
    *_WHOLE,
    *(f"depth {place / (DEPTHS - 1):g}: {name}" for place in range(DEPTHS) for name in _LAYER),
)
"""The name of each channel of a descriptor."""


def _quantiles(values: Tensor, at: tuple[float, ...]) -> list[float]:
    """Values of these ranks, between which nothing is interpolated; of tensors of any size."""
    places = [round(q * (values.numel() - 1)) for q in at]
    ordered = np.partition(values.numpy(), sorted(set(places)))
    return [float(ordered[place]) for place in places]


def _rms(values: Tensor) -> float:
    return float(values.square().mean().sqrt()) if values.numel() else 0.0


def _log(value: float) -> float:
    return float(np.log10(max(value, _FLOOR)))
