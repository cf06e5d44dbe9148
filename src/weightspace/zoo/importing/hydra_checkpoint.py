"""Checkpoints with a configuration of OmegaConf in them, read without OmegaConf.

Such a configuration is pickled as objects of OmegaConf's classes. Here each class stands
for an inert record that keeps what the pickle says of it: torch's restricted unpickler makes
records and containers, and nothing of a file is executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from weightspace.errors import FileError
from weightspace.importers import Checkpoint, read_states
from weightspace.importers.files.archive import open_archive
from weightspace.importers.files.guard import reading
from weightspace.importers.files.sorting import sort_states

DEEPEST = 16


class Record:
    """Stands for an object of OmegaConf; it has a state and does nothing.

    Args:
        arguments: what the pickle makes it from; kept nowhere.
    """

    def __init__(self, *arguments: object) -> None:
        self.state: object = None

    def __setstate__(self, state: object) -> None:
        self.state = state


class Word:
    """Stands for a type that a configuration mentions, such as ``typing.Any``."""


def _empty(*_: object) -> dict[str, Any]:
    return {}


def _stand_ins() -> list[Any]:
    nodes = ("Any", "Integer", "Float", "String", "Boolean", "Enum", "Path", "Bytes")
    records = [
        "omegaconf.dictconfig.DictConfig",
        "omegaconf.listconfig.ListConfig",
        "omegaconf.base.ContainerMetadata",
        "omegaconf.base.Metadata",
        *(f"omegaconf.nodes.{name}Node" for name in nodes),
    ]
    words = ["typing.Any", *(f"builtins.{name}" for name in ("dict", "list", "int", "float",
                                                            "str", "bool"))]  # fmt: skip
    return [
        *((_named(Record, name), name) for name in records),
        *((_named(Word, name), name) for name in words),
        (_empty, "collections.defaultdict"),
    ]


def _named(base: type, name: str) -> type:
    """A class of its own for each name: torch asks which class it was allowed."""
    return type(name.rpartition(".")[2], (base,), {})


def read_hydra(path: Path) -> Checkpoint:
    """Read a checkpoint, also if its configuration is an object of OmegaConf.

    Raises:
        FileError: it cannot be read, or holds objects of anything else.
    """
    try:
        return read_states(path)
    except FileError as error:
        if "omegaconf." not in error.found:
            raise
    open_archive(path, path).close()  # its declared sizes are plausible
    with reading(path, "a checkpoint with a configuration of OmegaConf"):
        tree = _load(path)
        if not isinstance(tree, Mapping):
            raise FileError(path, expected="a dictionary", found=type(tree).__name__)
        plain = {key: _plain(value, 0) for key, value in tree.items()}
    return Checkpoint(path, "torch", *sort_states(plain, path))


def _load(path: Path) -> object:
    """Load with records in the place of OmegaConf's objects; anything else is refused."""
    try:
        with torch.serialization.safe_globals(_stand_ins()):
            return torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        # torch's own message recommends to switch the protection off.
        raise FileError(
            path,
            expected="tensors, plain values and a configuration of OmegaConf",
            found="objects of something else",
            hint="It was refused before anything in it ran.",
        ) from error


def _plain(value: Any, depth: int) -> Any:
    """Records become the dictionaries, lists and values that they stand for."""
    if depth > DEEPEST:
        return None
    if isinstance(value, Record):
        state = value.state if isinstance(value.state, Mapping) else {}
        return _plain(state.get("_content", state.get("_val")), depth + 1)
    if isinstance(value, Mapping):
        return {
            (key if isinstance(key, str | int) else str(key)): _plain(item, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_plain(item, depth + 1) for item in value]
    kind = value if isinstance(value, type) else type(value)
    return kind.__name__ if issubclass(kind, Word) else value
