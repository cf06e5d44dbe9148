"""Running a module with other tensors in place of its own, fetched as they are read."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from weightspace.errors import StateError

_TABLES = ("_parameters", "_buffers")


@contextmanager
def substituted(module: nn.Module, state: Mapping[str, Tensor]) -> Iterator[None]:
    """Let a module and its parts read their tensors from a mapping.

    A tensor is asked for each time the module reads it and not kept, so a mapping that makes
    tensors on demand needs memory for one at a time. Tensors that the mapping lacks are the
    module's own. What the module writes stays until the end, and is then forgotten.

    Args:
        module: any module that is not scripted.
        state: tensors by their names in the module's state dict.

    Raises:
        StateError: the mapping has a name that is no parameter or buffer of the module.

    >>> import torch
    >>> layer = nn.Linear(2, 1, bias=False)
    >>> with torch.no_grad(), substituted(layer, {"weight": torch.ones(1, 2)}):
    ...     layer(torch.tensor([[3.0, 4.0]]))
    tensor([[7.]])
    """
    kept: list[tuple[nn.Module, str, Any]] = []
    found: set[str] = set()
    for prefix, part in module.named_modules(remove_duplicate=False):
        for table in _TABLES:
            own = vars(part).get(table, {})
            names = {name: f"{prefix}.{name}" if prefix else name for name in own}
            names = {name: full for name, full in names.items() if full in state}
            found.update(names.values())
            if names and not isinstance(own, _Substitute):
                kept.append((part, table, own))
                vars(part)[table] = _Substitute(own, names, state)
    try:
        unknown = [name for name in state if name not in found]
        if unknown:
            raise StateError(
                f"module {type(module).__name__}",
                expected="a parameter or buffer for every tensor of the state dict",
                found=f"none for {', '.join(unknown[:5])}",
            )
        yield
    finally:
        for part, table, own in kept:
            vars(part)[table] = own


class _Substitute(dict[str, Any]):
    """A module's table of tensors that reads some of them from elsewhere."""

    def __init__(
        self, own: dict[str, Any], names: dict[str, str], state: Mapping[str, Tensor]
    ) -> None:
        super().__init__(own)
        self._names, self._state = names, state

    def __getitem__(self, key: str) -> Any:
        if key in self._names:
            return self._state[self._names[key]]
        return super().__getitem__(key)

    def __setitem__(self, key: str, value: Any) -> None:
        self._names.pop(key, None)
        super().__setitem__(key, value)

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else default  # noqa: SIM401 (this is get)

    def values(self) -> Any:
        return ValuesView(self)

    def items(self) -> Any:
        return ItemsView(self)
