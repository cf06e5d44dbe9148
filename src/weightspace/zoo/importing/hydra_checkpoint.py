"""Checkpoints with a configuration of OmegaConf in them, read without OmegaConf.

Such a configuration is pickled as objects of OmegaConf's classes. Here each class stands
for an inert record that keeps what the pickle says of it: torch's restricted unpickler makes
records and containers, and nothing of a file is executed.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from weightspace.errors import FileError
from weightspace.importers import Checkpoint, read_states
from weightspace.importers.files.archive import open_archive, read_member
from weightspace.importers.files.guard import reading
from weightspace.importers.files.pickle_names import foreign_names
from weightspace.importers.files.sorting import sort_states

DEEPEST = 16
_WORDS = ("typing.", "types.GenericAlias", "operator.getitem", "_operator.getitem")
_TYPES = {f"builtins.{name}" for name in ("dict", "list", "tuple", "int", "float", "str", "bool")}
_OLDER = {"long": "int", "unicode": "str"}
_OURS = {"torch", "numpy", "weightspace"}


class Record:
    """Stands for an object of a class that is not imported; it has a state and does nothing.

    Args:
        arguments: what the pickle makes it from; kept nowhere.
    """

    def __init__(self, *arguments: object) -> None:
        self.state: object = None

    def __new__(cls, *arguments: object) -> Record:
        """Make a record, whatever the pickle makes it from."""
        return super().__new__(cls)

    def __setstate__(self, state: object) -> None:
        self.state = state


class Word(Record):
    """Stands for a type that a configuration mentions, such as ``typing.Any``."""


def read_hydra(path: Path) -> Checkpoint:
    """Read a checkpoint, also if its configuration is an object of OmegaConf.

    Objects of other classes of the program that wrote it, such as the dataclass behind a
    configuration, become dictionaries of their attributes.

    Raises:
        FileError: it cannot be read, or asks for functions of Python or torch.
    """
    try:
        return read_states(path)
    except FileError:
        names = _foreign(path)
        if not any(name.startswith("omegaconf.") for name in names):
            raise
    with reading(path, "a checkpoint with a configuration of OmegaConf"):
        tree = _load(path, names)
        if not isinstance(tree, Mapping):
            raise FileError(path, expected="a dictionary", found=type(tree).__name__)
        plain = {key: _plain(value, 0) for key, value in tree.items()}
    return Checkpoint(path, "torch", *sort_states(plain, path))


def _foreign(path: Path) -> list[str]:
    """The imports of a checkpoint that tensors do not need; none if it is no zip of torch."""
    try:
        with open_archive(path, path) as archive:
            (name,) = (n for n in archive.namelist() if n.endswith("/data.pkl"))
            return foreign_names(io.BytesIO(read_member(archive, name, path)), 0)
    except (FileError, OSError, ValueError):
        return []


def _stand_ins(names: Iterable[str]) -> list[Any]:
    """What is put in the place of foreign names; those without one are refused by torch."""
    found: list[Any] = []
    for name in map(_modern, names):
        if name == "collections.defaultdict":
            found.append((_empty, name))
        elif name in _TYPES or name.startswith(_WORDS):
            found.append((_named(Word, name), name))
        elif name.partition(".")[0] not in sys.stdlib_module_names | _OURS:
            found.append((_named(Record, name), name))
    return found


def _modern(name: str) -> str:
    """The name that torch reads: pickles for Python 2 have older ones."""
    module, _, rest = name.rpartition(".")
    if module in ("__builtin__", "builtins"):
        return f"builtins.{_OLDER.get(rest, rest)}"
    return name


def _empty(*_: object) -> dict[str, Any]:
    return {}


def _named(base: type, name: str) -> type:
    """A class of its own for each name: torch asks which class it was allowed."""
    return type(name.rpartition(".")[2], (base,), {})


def _load(path: Path, names: Iterable[str]) -> object:
    """Load with records in the place of OmegaConf's objects; anything else is refused."""
    try:
        with torch.serialization.safe_globals(_stand_ins(names)):
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
    if isinstance(value, Word):
        return type(value).__name__
    if isinstance(value, Record):
        state = value.state if isinstance(value.state, Mapping) else {}
        return _plain(state.get("_content", state.get("_val", state)), depth + 1)
    if isinstance(value, Mapping):
        return {
            (key if isinstance(key, str | int) else str(key)): _plain(item, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_plain(item, depth + 1) for item in value]
    return value.__name__ if isinstance(value, type) else value
