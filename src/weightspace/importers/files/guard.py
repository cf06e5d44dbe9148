"""Turning whatever a damaged file makes a parser raise into one clear error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from weightspace.errors import FileError, WeightspaceError

_TYPE_NAMES = (
    "float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8",
    "uint16", "uint32", "uint64", "bool", "complex64", "complex128", "float8_e4m3fn",
    "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu",
)  # fmt: skip
READABLE_TYPES = frozenset(getattr(torch, name) for name in _TYPE_NAMES if hasattr(torch, name))
"""The types of values that a tensor read from a file may have."""


@contextmanager
def reading(subject: object, what: str) -> Iterator[None]:
    """Report anything that goes wrong while a file is parsed as a :class:`FileError`.

    The parsers of other libraries raise nearly every type of exception on damaged input,
    so all of them are caught here.

    Args:
        subject: the file.
        what: what it should have been, such as ``"a torch checkpoint"``.
    """
    try:
        yield
    except WeightspaceError:
        raise
    except MemoryError as error:
        raise FileError(
            subject, expected=f"{what} that fits into memory", found="one that does not"
        ) from error
    except Exception as error:
        reason = " ".join(str(error).split()) or "no reason given"
        raise FileError(
            subject,
            expected=what,
            found=f"a file that could not be parsed ({type(error).__name__}: {reason[:300]})",
            hint="It may be damaged or cut short: copy or download it again.",
        ) from error


def check_tensor(subject: object, name: str, tensor: Tensor) -> Tensor:
    """Check that a tensor is an ordinary one, and detach it.

    Raises:
        FileError: it is sparse, quantised, without data, or of a type that is not supported.
    """
    kind = ""
    if tensor.layout != torch.strided:
        kind = f"layout {tensor.layout}"
    elif tensor.is_quantized:
        kind = "quantised values"
    elif tensor.device.type != "cpu":
        kind = f"no data (device {tensor.device})"
    elif tensor.dtype not in READABLE_TYPES:
        kind = f"type {tensor.dtype}"
    if kind:
        raise FileError(
            f"{subject}, tensor {name!r}",
            expected="a dense tensor of an ordinary number type",
            found=kind,
            hint="Convert it, for example with tensor.to_dense() or tensor.float().",
        )
    return tensor.detach()
