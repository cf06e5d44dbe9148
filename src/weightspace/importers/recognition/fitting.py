"""Whether layers in a given order fit together by their shapes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from torch import Tensor

from weightspace.importers.recognition.layers import Layer

UPWARD = {"decoder", "dec", "generator", "gen", "deconv", "convt", "transpose", "upsample", "main"}
"""Words of networks with transposed convolutions."""
MOST_POOLINGS = 3


class MisfitError(Exception):
    """Why layers do not fit together."""


def fit(layers: Sequence[Layer], tensors: Mapping[str, Tensor]) -> tuple[Layer, ...]:
    """Place layers one after another, each taking what the one before gives.

    The names' custom for how weights are stored is tried first. If shapes or biases
    contradict it, linear layers are tried the other way round; where both ways fit (square
    weights), the custom holds.

    Raises:
        MisfitError: they do not fit together.
    """
    try:
        return _fit(layers, tensors)
    except MisfitError:
        if any(layer.kind == "conv" for layer in layers):
            raise
        turned = [
            layer if layer.kind == "norm" else replace(layer, transposed=not layer.transposed)
            for layer in layers
        ]
        try:
            return _fit(turned, tensors)
        except MisfitError:
            pass
        raise


def _fit(layers: Sequence[Layer], tensors: Mapping[str, Tensor]) -> tuple[Layer, ...]:
    placed: list[Layer] = []
    for layer in layers:
        before = next((other for other in reversed(placed) if other.kind != "norm"), None)
        size = placed[-1].outputs if placed else None
        if layer.kind == "norm":
            placed.append(_fit_norm(layer, size))
        else:
            placed.append(_fit_matrix(layer, before, size, tensors))
    return tuple(placed)


def _fit_norm(layer: Layer, size: int | None) -> Layer:
    if size is not None and layer.outputs != size:
        raise MisfitError(f"{layer.name} scales {layer.outputs} neurons where there are {size}")
    if not layer.is_channel_norm:
        raise MisfitError(
            f"{layer.name} may be a layer norm, a group norm or an activation's parameter"
        )
    return layer


def _fit_matrix(
    layer: Layer, before: Layer | None, size: int | None, tensors: Mapping[str, Tensor]
) -> Layer:
    if layer.bias is not None and tensors[layer.bias].shape[0] != layer.outputs:
        raise MisfitError(f"{layer.name} has {layer.outputs} outputs but another number of biases")
    _check_direction(layer)
    if before is None:
        if size is not None and layer.inputs != size:
            raise MisfitError(f"{layer.name} takes {layer.inputs} values of {size}")
        return layer
    assert size is not None
    if layer.kind == "conv" and (before.kind != "conv" or len(before.kernel) != len(layer.kernel)):
        raise MisfitError(f"{layer.name} is a convolution after {before.name}, which is another")
    if layer.inputs == size:
        return layer
    positions = layer.inputs // size
    flat = layer.kind == "linear" and before.kind == "conv" and layer.inputs % size == 0
    if not flat:
        raise MisfitError(f"{layer.name} takes {layer.inputs} values, {before.name} gives {size}")
    if not _is_a_grid(positions, len(before.kernel)):
        raise MisfitError(f"{layer.name} takes {positions} values of each channel of {before.name}")
    return replace(layer, positions=positions)


def _is_a_grid(positions: int, dimensions: int) -> bool:
    """Whether a number of positions is that of a flattened square or cube.

    Others may come from several poolings side by side, whose values lie in another order.
    """
    if dimensions == 1:
        return positions > MOST_POOLINGS
    side: int = round(positions ** (1 / dimensions))
    return math.prod([side] * dimensions) == positions


def _check_direction(layer: Layer) -> None:
    """Refuse square convolutions that may be transposed ones, stored inputs first."""
    words = {word for part in layer.path for word in re.split(r"[_\d]+", part.lower())}
    even = any(size % 2 == 0 for size in layer.kernel)
    if layer.kind == "conv" and layer.inputs == layer.outputs and (even or words & UPWARD):
        raise MisfitError(f"{layer.name} may be a convolution or a transposed one")
