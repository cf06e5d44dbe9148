"""A zoo's rows as CSV."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from weightspace.zoo.store import Zoo


def labels_csv(zoo: Zoo, *, file: list[str] | None = None) -> bytes:
    """The metadata as CSV; lists are JSON text, missing values empty cells.

    Args:
        zoo: the zoo.
        file: each network's file, for a first column of that name; the zoo's own column
            ``file`` is then called ``file_before``.
    """
    table = zoo.metadata
    names = list(table.column_names)
    columns: list[list[Any]] = [table.column(name).to_pylist() for name in names]
    if file is not None:
        names = ["file", *("file_before" if name == "file" else name for name in names)]
        columns = [file, *columns]
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_cell(value) for value in row] for row in zip(*columns, strict=True))
    return buffer.getvalue().encode()


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    return json.dumps(value) if isinstance(value, list) else value
