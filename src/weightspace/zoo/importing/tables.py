"""Small tables that lie beside networks: CSV and JSON files, and plain values out of both."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from weightspace.errors import FileError, reason_of

Row = dict[str, Any]
LONGEST_TEXT = 500
LARGEST_TABLE = 1 << 30


def read_text(path: Path) -> str:
    """Read a text file, unpacked if its name ends in .gz.

    Raises:
        FileError: it is missing, damaged, not UTF-8, or unpacks to more than 1 GB.
    """
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rb") as file:
                content = file.read(LARGEST_TABLE + 1)
        else:
            content = path.read_bytes()
        if len(content) > LARGEST_TABLE:
            raise FileError(path, expected="a table of at most 1 GB", found="a larger one")
        return content.decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError, ValueError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(path, expected="a readable text file", found=reason_of(error)) from error


def read_json_value(path: Path) -> Any:
    """Read JSON of any kind.

    Raises:
        FileError: it cannot be read.
    """
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(path, expected="JSON", found=reason_of(error)) from error


def read_csv(path: Path, *, text: Callable[[list[str]], str] | None = None) -> list[Row]:
    """Read a CSV file with a header; columns of numbers become numbers, empty cells None.

    Args:
        path: the file.
        text: which column of the header stays text, such as names like ``007``.

    Raises:
        FileError: it cannot be read, two columns have one name, or a line has more cells than
            the header.
    """
    content = read_text(path)
    try:
        dialect: type[csv.Dialect] | csv.Dialect = csv.Sniffer().sniff(content[:4096], ",;\t")
    except csv.Error:
        dialect = csv.excel
    reader = csv.reader(io.StringIO(content, newline=""), dialect)
    try:
        header = next(reader, None)
        if not header:
            raise FileError(path, expected="a CSV file with a header", found="an empty one")
        lines = [line for line in reader if line]
    except csv.Error as error:
        raise FileError(path, expected="a CSV file", found=reason_of(error)) from error
    for number, line in enumerate(lines, start=2):
        if len(line) != len(header):
            raise FileError(
                f"{path}, line {number}",
                expected=f"{len(header)} cells, as in the header",
                found=str(len(line)),
            )
    if len(set(header)) < len(header):
        doubled = next(name for name in header if header.count(name) > 1)
        raise FileError(path, expected="columns with different names", found=f"{doubled!r} twice")
    kept = None if text is None else text(header)
    cells_of = [[line[place] for line in lines] for place in range(len(header))]
    columns = [
        cells if name == kept else typed(cells)
        for name, cells in zip(header, cells_of, strict=True)
    ]
    return [dict(zip(header, cells, strict=True)) for cells in zip(*columns, strict=True)]


def typed(cells: Sequence[str]) -> list[Any]:
    """Give a column of texts the narrowest type that all its cells have.

    >>> typed(["1", "", "2"]), typed(["1", "2.5"]), typed(["True", "false"]), typed(["1", "x"])
    ([1, None, 2], [1.0, 2.5], [True, False], ['1', 'x'])
    """
    filled = [cell.strip() for cell in cells]
    some = {cell for cell in filled if cell}
    lowered = {cell.lower() for cell in some}
    if lowered <= {"true", "false"}:
        return [None if not cell else cell.lower() == "true" for cell in filled]
    for kind in (int, float):
        try:
            values = {cell: kind(cell if "_" not in cell else "") for cell in some}
        except ValueError:
            continue
        if all(not isinstance(v, int) or abs(v) < 2**63 for v in values.values()):
            return [values.get(cell) for cell in filled]
    return [cell or None for cell in filled]


def flat(values: Mapping[str, Any], prefix: str = "", depth: int = 3) -> Iterator[tuple[str, Any]]:
    """Every plain value of nested dictionaries, under its keys joined by dots.

    Long texts, long lists and deeper dictionaries are passed over.

    >>> dict(flat({"lr": 0.1, "model": {"layers": [2, 3]}}, "config."))
    {'config.lr': 0.1, 'config.model.layers': [2, 3]}
    """
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            if depth > 1:
                yield from flat(value, f"{name}.", depth - 1)
        elif is_plain(value):
            yield name, value


def is_plain(value: object) -> bool:
    """Whether a value is a number, a short text, a boolean, or a short list of such."""
    if isinstance(value, list):
        kinds = {bool if isinstance(v, bool) else type(v) for v in value}
        same = len(kinds) <= 1 or kinds == {int, float}
        return 0 < len(value) <= 64 and same and all(is_plain(v) for v in value) and not any(
            isinstance(v, list) for v in value
        )  # fmt: skip
    if isinstance(value, str):
        return len(value) <= LONGEST_TEXT
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return isinstance(value, float)


def settle(rows: Sequence[Row]) -> list[str]:
    """Give every column one type, in place: where rows disagree, text.

    A table holds one type a column, but runs write what they like: ``0.1`` here, ``"auto"``
    there.

    Returns:
        The columns that became text.
    """
    kinds: dict[str, set[str]] = {}
    for row in rows:
        for name, value in row.items():
            if value is not None:
                kinds.setdefault(name, set()).add(_kind(value))
    mixed = [name for name, found in kinds.items() if len(found - {"integer"}) > 1 or (
        "integer" in found and not found <= {"integer", "number"})]  # fmt: skip
    widened = [name for name, found in kinds.items() if found == {"integer", "number"}]
    for row in rows:
        for name in mixed:
            value = row.get(name)
            if value is not None:
                row[name] = value if isinstance(value, str) else json.dumps(value)
        for name in widened:
            if row.get(name) is not None:
                row[name] = float(row[name])
    return mixed


def _kind(value: Any) -> str:
    if isinstance(value, list):
        return "list of " + "/".join(sorted({_kind(v) for v in value}))
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    return "number" if isinstance(value, float) else "text"


def same(left: Any, right: Any) -> bool:
    """Whether two plain values are equal; NaN equals itself."""
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    return bool(left == right)
