"""Labels in a CSV or JSON file beside the networks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from weightspace.errors import FileError
from weightspace.zoo.importing.joining import JoinTable
from weightspace.zoo.importing.tables import Row, flat, is_plain, read_csv, read_json_value

NAMING = (
    "path", "file", "filename", "file_name", "relative_path", "checkpoint", "name", "network",
    "model", "model_name", "id", "key", "stem", "run", "trial", "",
)  # fmt: skip
"""The columns that may name the networks, the most telling first; otherwise the first one."""


def read_labels(path: Path) -> JoinTable:
    """Read labels: a CSV file with a header, or JSON.

    JSON may be a dictionary from names to labels, a list of rows, or a dictionary of columns.

    Raises:
        FileError: the file cannot be read, or holds no rows.
        DataError: a network is named twice, with different labels.
    """
    if path.name.removesuffix(".gz").endswith(".json"):
        rows = list(_from_json(path, read_json_value(path)))
    else:
        table = read_csv(path, text=naming_column)
        if not table:
            raise FileError(path, expected="rows of labels", found="a header alone")
        rows = list(_named(table))
    return JoinTable.of(str(path), rows)


def naming_column(header: list[str]) -> str:
    """The column that names the networks.

    >>> naming_column(["acc", "File"]), naming_column(["agent", "acc"])
    ('File', 'agent')
    """
    lowered = {name.lower(): name for name in reversed(header)}
    return next((lowered[name] for name in NAMING if name in lowered), header[0])


def _from_json(path: Path, value: Any) -> Iterator[tuple[str, Row]]:
    if isinstance(value, list) and value and all(isinstance(row, Mapping) for row in value):
        yield from _named([dict(flat(row)) for row in value])
    elif isinstance(value, Mapping) and value and _is_columns(value):
        names = list(value)
        cells = zip(*value.values(), strict=True)
        yield from _named([dict(zip(names, row, strict=True)) for row in cells])
    elif isinstance(value, Mapping) and value:
        for name, row in value.items():
            plain = dict(flat(row)) if isinstance(row, Mapping) else {"label": row}
            if not isinstance(row, Mapping) and not is_plain(row):
                raise FileError(
                    f"{path}, {name!r}", expected="a label or labels", found=str(row)[:80]
                )
            yield name, plain
    else:
        raise FileError(
            path,
            expected="a dictionary from names to labels, a list of rows, or columns",
            found=f"{type(value).__name__} of {len(value)}" if hasattr(value, "__len__")
            else type(value).__name__,
        )  # fmt: skip


def _is_columns(value: Mapping[str, Any]) -> bool:
    lengths = {len(v) if isinstance(v, list) else -1 for v in value.values()}
    return len(lengths) == 1 and -1 not in lengths and any(n in value for n in NAMING)


def _named(rows: Sequence[Row]) -> Iterator[tuple[str, Row]]:
    """Split each row into the network's name and the labels."""
    column = naming_column(list(rows[0]))
    for row in rows:
        name = row.get(column)
        if name not in (None, ""):
            yield str(name), {k: v for k, v in row.items() if k != column}
