"""Files that say which networks are for training, validation and test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from weightspace.errors import DataError, FileError
from weightspace.zoo.importing.joining import JoinTable, tidy
from weightspace.zoo.importing.labels import read_labels
from weightspace.zoo.importing.tables import Row, flat, read_json_value
from weightspace.zoo.store_rows import SPLIT

SplitTable = JoinTable
"""A table whose rows have the column ``split``."""

PATHS = ("path", "paths", "file", "files")


def read_splits(path: Path) -> SplitTable:
    """Read splits: JSON as DWSNets and neural-graphs write it, or a table with a split column.

    The JSON is a dictionary from each split's name to a list of paths, or to columns of equal
    length with ``path`` among them (the others, such as ``label`` and ``score``, are labels).

    Raises:
        FileError: the file cannot be read, or is none of this.
        DataError: a network is in two splits.
    """
    if path.suffix.lower() == ".json":
        value = read_json_value(path)
        if is_splits(value):
            return _table(path, value)
    table = read_labels(path)
    if not any(SPLIT in row for row in table.rows.values()):
        raise FileError(
            path,
            expected="a dictionary from splits to paths, or a table with a column 'split'",
            found="neither",
        )
    return table


def is_splits(value: Any) -> bool:
    """Whether a JSON value has the form of splits."""
    return isinstance(value, Mapping) and bool(value) and all(
        (isinstance(v, list) and all(isinstance(p, str) for p in v))
        or (isinstance(v, Mapping) and any(isinstance(v.get(name), list) for name in PATHS))
        for v in value.values()
    )  # fmt: skip


def _table(path: Path, value: Mapping[str, Any]) -> SplitTable:
    rows: dict[str, Row] = {}
    for split, entries in value.items():
        for name, row in _entries(path, split, entries):
            before = rows.setdefault(tidy(name), row)
            if before[SPLIT] != split:
                raise DataError(
                    f"{path}, {name!r}",
                    expected="one split for each network",
                    found=f"{before[SPLIT]!r} and {split!r}",
                )
    return JoinTable(str(path), rows)


def _entries(path: Path, split: str, entries: Any) -> Iterator[tuple[str, Row]]:
    if isinstance(entries, list):
        yield from ((name, {SPLIT: split}) for name in entries)
        return
    column = next(name for name in PATHS if isinstance(entries.get(name), list))
    names = entries[column]
    others = {k: v for k, v in entries.items() if k != column and isinstance(v, list)}
    for label, values in others.items():
        if len(values) != len(names):
            raise FileError(
                f"{path}, {split!r}",
                expected=f"{len(names)} values of {label!r}, one a path",
                found=str(len(values)),
            )
    for place, name in enumerate(names):
        row = dict(flat({label: values[place] for label, values in others.items()}))
        yield str(name), {**{k: _number(v) for k, v in row.items()}, SPLIT: split}


def _number(value: Any) -> Any:
    """Labels that were written as text, such as ``"7"``, are numbers."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value
