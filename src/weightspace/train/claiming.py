"""A folder belongs to one training: its settings are kept there and compared."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weightspace.errors import FileError, reason_of
from weightspace.zoo import Zoo


def claim_folder(folder: Path, wanted: Mapping[str, str]) -> None:
    """Keep the settings in the folder, so that only the same training goes on there.

    Args:
        folder: made if it is not there.
        wanted: all that decides the result, as text.

    Raises:
        FileError: the folder holds another training, or cannot be written.
    """
    path = folder / "settings.json"
    try:
        if path.is_file():
            _require_same(path, wanted)
            return
        folder.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(dict(wanted), indent=1))
        temporary.replace(path)
    except (OSError, ValueError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(
            path, expected="the settings of a training", found=reason_of(error)
        ) from error


def zoo_hash(zoo: Zoo) -> str:
    """What tells a zoo's contents from others': a hash of its manifest, which holds all hashes."""
    return hashlib.sha256((zoo.path / "zoo.json").read_bytes()).hexdigest()[:16]


def rows_hash(splits: Mapping[str, Sequence[int]]) -> str:
    """What tells chosen splits from others."""
    plain = {name: [int(row) for row in rows] for name, rows in sorted(splits.items())}
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()[:16]


def described(value: Any) -> str:
    """A dataclass by its values without its spec, a function by its name.

    >>> from weightspace.graph import chain_spec
    >>> from weightspace.tasks.augmentation import InrAugmentation
    >>> described(InrAugmentation(chain_spec([2, 4, 1]), noise=0.5))[:34]
    'InrAugmentation(translation=0.25, '
    """
    if value is None:
        return "none"
    if not dataclasses.is_dataclass(value):
        return str(getattr(value, "__qualname__", type(value).__name__))
    values = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    shown = ", ".join(f"{name}={item}" for name, item in values.items() if name != "spec")
    return f"{type(value).__name__}({shown})"


def _require_same(path: Path, wanted: Mapping[str, str]) -> None:
    found = json.loads(path.read_text())
    if not isinstance(found, dict):
        raise ValueError(f"{type(found).__name__} instead of settings")
    other = [key for key in wanted if found.get(key) != wanted[key]]
    if other:
        raise FileError(
            path,
            expected=", ".join(f"{key} {wanted[key]}" for key in other),
            found=", ".join(str(found.get(key)) for key in other),
            hint="The folder holds another training; choose another one.",
        )
