"""Modules that remember: what a run leaves in a module's own dictionaries is undone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


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
