"""Modules that a person names, and inputs of the shapes that they give."""

from __future__ import annotations

import importlib
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weightspace.errors import DataError, ModelError

if TYPE_CHECKING:
    from torch import Tensor, nn

_LARGEST = 2**28


def import_module(name: str) -> nn.Module:
    """Import ``package.module:name`` and get the module that it is or gives.

    Packages in the current folder are found, as with ``python -m``.

    Raises:
        ModelError: it cannot be imported, does not exist, or gives something else.
    """
    from torch import nn

    package, _, attribute = name.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found: Any = importlib.import_module(package)
        for part in attribute.split("."):
            found = getattr(found, part)
        if not isinstance(found, nn.Module) and callable(found):
            found = found()
    except Exception as error:  # the code is the person's own and can raise anything
        raise ModelError(
            name,
            expected="package.module:name of an nn.Module, or of what gives one without arguments",
            found=f"{type(error).__name__}: {' '.join(str(error).split())[:300]}",
        ) from error
    if not isinstance(found, nn.Module):
        raise ModelError(name, expected="an nn.Module", found=type(found).__name__)
    return found.eval()


def example_tensors(inputs: str | None) -> tuple[Tensor, ...]:
    """Random inputs of the shapes that a person wrote.

    Raises:
        DataError: there are none, or they cannot be read.
    """
    import torch

    if inputs is None:
        raise DataError(
            "--inputs",
            expected="the shapes of the module's inputs",
            found="none",
            hint='Such as --inputs "1,3,224,224".',
        )
    generator = torch.Generator().manual_seed(0)
    return tuple(
        torch.randint(0, 2, shape, generator=generator)
        if whole
        else torch.randn(shape, generator=generator)
        for whole, shape in parse_shapes(inputs)
    )


def parse_shapes(inputs: str) -> list[tuple[bool, tuple[int, ...]]]:
    """Read shapes such as ``1,3,8,8;int:1,16``: whether they are of whole numbers, and sizes.

    Raises:
        DataError: they cannot be read.

    >>> parse_shapes("1,3,8,8; int:1,16")
    [(False, (1, 3, 8, 8)), (True, (1, 16))]
    """
    result = []
    for text in inputs.split(";"):
        kind, colon, sizes = text.strip().rpartition(":")
        parts = [part.strip() for part in sizes.split(",")]
        good = all(part.isdecimal() and int(part) > 0 for part in parts if len(part) < 12)
        good = good and all(0 < len(part) < 12 for part in parts)
        if not good or (colon and kind.strip() not in ("int", "float")):
            raise DataError(
                "--inputs",
                expected='shapes such as "1,3,224,224" or "int:1,16", separated by ";"',
                found=repr(text.strip()),
            )
        shape = tuple(int(part) for part in parts)
        if math.prod(shape) > _LARGEST:
            raise DataError(
                "--inputs", expected=f"at most {_LARGEST:,} values", found=repr(text.strip())
            )
        result.append((kind.strip() == "int", shape))
    return result
