"""Random inputs of the shapes that a model declares."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from weightspace.errors import FileError
from weightspace.importers.onnx.operation import torch_type

if TYPE_CHECKING:
    import onnx

Shapes = Mapping[str, Sequence[int]] | Sequence[Sequence[int]]

_LARGEST = 2**28
_SEQUENCE, _PLACE, _CHANNELS = 16, 64, 3


def example_inputs(
    model: onnx.ModelProto, shapes: Shapes | None, subject: str
) -> dict[str, Tensor]:
    """A random tensor for each input that has no default value.

    Sizes that the model leaves open are 1 for the first dimension; the others are guessed
    (sequences of 16, images of 64 x 64) unless shapes are given.

    Raises:
        FileError: a type or shape that cannot be made, or shapes that do not fit.
    """
    defaults = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in defaults]
    if not inputs:
        raise FileError(subject, expected="a network with inputs", found="none")
    given = _by_name(shapes, [value.name for value in inputs], subject)
    generator = torch.Generator().manual_seed(0)
    return {
        value.name: _example(value, given.get(value.name), generator, subject) for value in inputs
    }


def _by_name(
    shapes: Shapes | None, names: Sequence[str], subject: str
) -> Mapping[str, Sequence[int]]:
    if shapes is None:
        return {}
    if not isinstance(shapes, Mapping):
        if len(shapes) != len(names):
            raise FileError(
                f"{subject}, input_shapes", found=f"{len(shapes)}",
                expected=f"shapes of {len(names)} inputs: {', '.join(names)}",
            )  # fmt: skip
        return dict(zip(names, shapes, strict=True))
    unknown = set(shapes) - set(names)
    if unknown:
        raise FileError(
            f"{subject}, input_shapes", expected=f"inputs {', '.join(names)}",
            found=", ".join(sorted(unknown)),
        )  # fmt: skip
    return shapes


def _example(
    value: onnx.ValueInfoProto,
    asked: Sequence[int] | None,
    generator: torch.Generator,
    subject: str,
) -> Tensor:
    where = f"{subject}, input {value.name!r}"
    kind = value.type.tensor_type
    dtype = torch_type(kind.elem_type)
    if dtype is None:
        raise FileError(where, expected="a tensor of numbers", found=f"type {kind.elem_type}")
    if not kind.HasField("shape") and asked is None:
        raise FileError(where, expected="a declared shape", found="none", hint="Give input_shapes.")
    declared = [dim.dim_value for dim in kind.shape.dim]
    shape = _guess(declared) if asked is None else [int(n) for n in asked]
    fits = len(shape) == len(declared) and all(
        b in (0, a) for a, b in zip(shape, declared, strict=True)
    )
    if asked is not None and kind.HasField("shape") and not fits:
        raise FileError(where, expected=f"shape {declared} (0: any)", found=str(shape))
    if any(n < 1 for n in shape) or math.prod(shape) > _LARGEST:
        raise FileError(
            where, expected="a shape of ordinary size", found=str(shape), hint="Give input_shapes."
        )
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    if dtype == torch.bool or "mask" in value.name.lower():
        return torch.ones(shape, dtype=dtype)
    return torch.randint(0, 2, shape, generator=generator).to(dtype)


def _guess(declared: Sequence[int]) -> list[int]:
    """Sizes for those that a model leaves open."""
    images = len(declared) >= 4
    result = []
    for place, size in enumerate(declared):
        if size != 0:
            result.append(size)
        elif place == 0:
            result.append(1)
        elif images:
            result.append(_CHANNELS if place == 1 else _PLACE)
        else:
            result.append(_SEQUENCE)
    return result
