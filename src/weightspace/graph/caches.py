"""What is remembered: tensors that may be used in any mode, and modules that remember too much."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

import torch
from torch import nn

P = ParamSpec("P")
R = TypeVar("R")


def lasting(function: Callable[P, R]) -> Callable[P, R]:
    """Make tensors that are kept, whoever asks for them first.

    A tensor made under ``torch.inference_mode`` can never be part of a training step; one that is
    kept must not depend on whether the first to ask was an evaluation.

    >>> index = lasting(lambda: torch.arange(3))
    >>> with torch.inference_mode():
    ...     index().is_inference()
    False
    """

    @functools.wraps(function)
    def made(*args: P.args, **kwargs: P.kwargs) -> R:
        if not torch.is_inference_mode_enabled():
            return function(*args, **kwargs)
        with torch.inference_mode(False):
            return function(*args, **kwargs)

    return made


@contextmanager
def no_memory(module: nn.Module) -> Iterator[None]:
    """Restore the plain dictionaries of a module and its parts after a run.

    Some networks cache values computed from their parameters (attention biases by device):
    a later run with other parameters would silently use the old ones.

    >>> class Caching(nn.Module):
    ...     def __init__(self) -> None:
    ...         super().__init__()
    ...         self.cache = {}
    >>> module = Caching()
    >>> with no_memory(module):
    ...     module.cache["x"] = 1
    >>> module.cache
    {}
    """
    kept = [
        (held, dict(held))
        for part in module.modules()
        for name, held in vars(part).items()
        if type(held) is dict and not name.startswith("_")
    ]
    try:
        yield
    finally:
        for held, before in kept:
            held.clear()
            held.update(before)
