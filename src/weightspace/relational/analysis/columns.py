"""Tables of runs as Parquet files: what their columns are, and what they may hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from weightspace.errors import FileError

if TYPE_CHECKING:
    import pyarrow as pa

Array = npt.NDArray[Any]
Columns = dict[str, Array]

COLUMNS = {
    "network": "text",
    "graph": "text",
    "clustering": "number",
    "path_length": "number",
    "degree": "number",
    "seed": "number",
    "error": "number",
}
"""What every table of runs has: a row for each run, or for each of its epochs."""

OPTIONAL = {
    "epoch": "number",
    "nodes": "number",
    "kind": "text",
    "control_of": "text",
    "epochs": "number",
    "stop": "number",
}
"""What it may have besides.

``kind`` is ``sweep`` (the graphs of the study), ``complete``, or the name of a control, whose
``control_of`` may name a graph of the sweep. Without it, graphs with clustering and path length
1 are complete and all others of the sweep. ``stop`` is the epoch that a run was stopped at, by
halving before the ``epochs`` of a whole training.
"""


def read_columns(path: Path) -> Columns:
    """The columns of a Parquet file that an analysis knows.

    Raises:
        FileError: it is missing, no Parquet file, or lacks a column.
    """
    import pyarrow as pa  # noqa: PLC0415 (slow to import)
    import pyarrow.parquet as pq  # noqa: PLC0415

    if not path.exists():
        raise FileError(
            path, expected="a Parquet file of runs, or a folder of them", found="nothing"
        )
    try:
        table = pq.ParquetFile(path).read()
    except (pa.ArrowException, OSError, ValueError) as error:
        found = (str(error).splitlines() or [""])[0][:200]
        raise FileError(path, expected="a Parquet file of runs", found=found) from error
    require_columns(table.column_names, path)
    kinds = {
        name: kind for name, kind in (COLUMNS | OPTIONAL).items() if name in table.column_names
    }
    return {name: _values(table[name], name, kind, path) for name, kind in kinds.items()}


def require_columns(names: Sequence[str], source: Path | str) -> None:
    """Check that a table has every column that it must have.

    Raises:
        FileError: it lacks one.
    """
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise FileError(
            source,
            expected=f"the columns {', '.join(COLUMNS)}",
            found=f"no column {', '.join(missing)} (columns: {_listed(names)})",
        )


def _values(column: pa.ChunkedArray, name: str, kind: str, path: Path) -> Array:
    import pyarrow as pa  # noqa: PLC0415 (slow to import)

    types = pa.types
    if kind == "number" and (types.is_integer(column.type) or types.is_floating(column.type)):
        values: Array = np.asarray(column.to_numpy(), dtype=np.float64)
        _require_finite(values, name, path)
        return values
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if kind == "text" and (types.is_string(column.type) or types.is_large_string(column.type)):
        if column.null_count and name != "control_of":
            raise FileError(
                f"{path}, column {name}",
                expected="a name in every row",
                found=f"{column.null_count} rows without one",
            )
        return np.array(column.to_pylist(), dtype=object)
    raise FileError(
        f"{path}, column {name}", expected=f"a column of {kind}s", found=str(column.type)
    )


def _require_finite(values: Array, name: str, path: Path) -> None:
    """Errors may be missing; everything else must be known of every run."""
    bad = np.isinf(values) if name in {"error", "nodes"} else ~np.isfinite(values)
    if bad.any():
        row = int(bad.argmax())
        raise FileError(
            f"{path}, column {name}", expected="finite numbers", found=f"{values[row]} in row {row}"
        )


def _listed(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
