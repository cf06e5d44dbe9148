"""Gathering a checkpoint's tensors into layers, by their names and shapes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from weightspace.importers.recognition.tensor_names import (
    SOURCE_FIRST,
    Part,
    TensorName,
    parse_name,
)

MOST_DIMENSIONS = 5
_STATISTICS: tuple[Part, ...] = ("mean", "var")
LayerKind = Literal["linear", "conv", "norm"]
CHANNEL_NORMS = {
    "ln", "layernorm", "layernormalization", "bn", "batchnorm", "batchnormalization",
    "instancenorm", "rmsnorm",
}  # fmt: skip
"""Norms that treat all neurons alike; a group norm, whose tensors look the same, does not."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A linear layer, a convolution or a norm.

    Args:
        path: the components of its name.
        kind: which of the three.
        shape: its weight's shape, or for a norm its size alone.
        weight: the weight's name.
        bias: the bias's name, if there is one.
        statistics: the names of running mean and variance.
        transposed: whether the weight is stored inputs first: ``[..., inputs, outputs]``.
        positions: for a linear layer after a convolution, how many positions of each channel
            were flattened into its inputs.
    """

    path: tuple[str, ...]
    kind: LayerKind
    shape: tuple[int, ...]
    weight: str | None = None
    bias: str | None = None
    statistics: tuple[str, ...] = ()
    transposed: bool = False
    positions: int = 1

    @property
    def name(self) -> str:
        """The path as one name; a bare weight and bias are ``layer``."""
        return ".".join(self.path) or "layer"

    @property
    def outputs(self) -> int:
        """The number of its output neurons or channels."""
        return self.shape[-1] if self.transposed else self.shape[0]

    @property
    def inputs(self) -> int:
        """The number of values or channels it takes."""
        if self.kind == "norm":
            return self.outputs
        return self.shape[-2] if self.transposed else self.shape[1]

    @property
    def kernel(self) -> tuple[int, ...]:
        """The extent of a convolution's kernel."""
        if self.kind != "conv":
            return ()
        return self.shape[:-2] if self.transposed else self.shape[2:]

    @property
    def tensors(self) -> tuple[str, ...]:
        """The names of its tensors: weight, bias, statistics."""
        return tuple(name for name in (self.weight, self.bias, *self.statistics) if name)

    @property
    def is_channel_norm(self) -> bool:
        """Whether it is certain to treat all neurons alike."""
        words = {re.sub(r"[_\d]", "", part).lower() for part in self.path}
        return bool(self.statistics) or bool(words & CHANNEL_NORMS)


@dataclass
class Gathered:
    """What :func:`gather_layers` found.

    Args:
        layers: the layers, in the order of the tensors.
        strays: tensors of no layer, by name.
        left_out: tensors that no neuron owns, with the reason.
    """

    layers: list[Layer] = field(default_factory=list)
    strays: dict[str, TensorName] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def gather_layers(tensors: Mapping[str, Tensor]) -> Gathered:
    """Gather tensors that belong to one layer.

    >>> import torch
    >>> found = gather_layers({"0.weight": torch.ones(4, 2), "0.bias": torch.ones(4)})
    >>> [(layer.kind, layer.inputs, layer.outputs) for layer in found.layers]
    [('linear', 2, 4)]
    """
    gathered = Gathered()
    places: dict[tuple[str, ...], list[TensorName]] = {}
    for name, tensor in tensors.items():
        parsed = parse_name(name)
        if parsed.part == "count":
            gathered.left_out[name] = "integers, which count or point"
        elif parsed.part == "other" or tensor.numel() == 0:
            _set_aside(gathered, parsed, tensor)
        else:
            places.setdefault(parsed.path, []).append(parsed)
    for path, names in places.items():
        layer = _make_layer(path, names, tensors)
        if layer is None:
            for parsed in names:
                _set_aside(gathered, parsed, tensors[parsed.name])
        else:
            gathered.layers.append(layer)
    return gathered


def _set_aside(gathered: Gathered, parsed: TensorName, tensor: Tensor) -> None:
    if tensor.numel() == 0:
        gathered.left_out[parsed.name] = "holds no values"
    elif tensor.numel() == 1:
        gathered.left_out[parsed.name] = "a single number, which no neuron owns"
    else:
        gathered.strays[parsed.name] = parsed


def _make_layer(
    path: tuple[str, ...], names: Iterable[TensorName], tensors: Mapping[str, Tensor]
) -> Layer | None:
    """One layer of the tensors with one path, or None if they are not one."""
    names = list(names)
    parts = {parsed.part: parsed.name for parsed in names}
    if len(parts) < len(names) or any(not tensors[p.name].is_floating_point() for p in names):
        return None
    weight, bias = parts.get("weight"), parts.get("bias")
    statistics = tuple(parts[part] for part in _STATISTICS if part in parts)
    if any(tensors[name].ndim != 1 for part, name in parts.items() if part != "weight"):
        return None
    if weight is None or tensors[weight].ndim == 1:
        sizes = {tensors[name].shape[0] for name in parts.values()}
        a_number = sizes == {1} and bias is None
        if len(sizes) != 1 or (not statistics and (weight is None or a_number)):
            return None
        return Layer(path, "norm", tuple(sizes), weight, bias, statistics)
    shape = tuple(tensors[weight].shape)
    if statistics or not 2 <= len(shape) <= MOST_DIMENSIONS:
        return None
    kind: LayerKind = "linear" if len(shape) == 2 else "conv"
    (word,) = [parsed.word for parsed in names if parsed.part == "weight"]
    return Layer(path, kind, shape, weight, bias, transposed=word in SOURCE_FIRST)
