"""Rows of metadata: what a network's row may hold, and how rows become a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from weightspace.errors import DataError, reason_of, similar_name

if TYPE_CHECKING:
    import pyarrow as pa

RESERVED = ("network", "spec")
"""Columns that the store fills itself."""

SPLIT = "split"
"""The column that names each network's split, unless the rows have one of another name."""


def plain_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Bring a row into a form that JSON and parquet hold exactly.

    Raises:
        DataError: a name is taken, or a value is not a number, text, boolean, None, or a
            list of them.

    >>> plain_row({"label": np.int64(7), "psnr": float("nan")})
    {'label': 7, 'psnr': nan}
    """
    for name in row:
        if not isinstance(name, str) or name in RESERVED:
            raise DataError(
                f"metadata column {name!r}",
                expected=f"a text other than {' and '.join(RESERVED)}",
                found="a name that cannot be used",
            )
    return {name: _plain(name, value) for name, value in row.items()}


def table_of(
    rows: Sequence[Mapping[str, Any]],
    specs: npt.NDArray[np.integer[Any]],
    splits: Sequence[str | None] | None,
) -> pa.Table:
    """Make the metadata table; a value that a row lacks is null.

    Args:
        rows: one a network.
        specs: the index of each network's spec.
        splits: each network's split, for the column :data:`SPLIT`.

    Raises:
        DataError: a column mixes types, or the rows have a column ``split`` already.
    """
    import pyarrow as pa  # noqa: PLC0415 (only finishing needs it)

    names = dict.fromkeys(name for row in rows for name in row)
    if splits is not None and SPLIT in names:
        raise DataError(
            "metadata column 'split'",
            expected="no such column beside given splits",
            found="one in the rows",
            hint="Use it with finish(split_column='split'), or rename it.",
        )
    columns = {
        "network": pa.array(np.arange(len(rows), dtype=np.int64)),
        "spec": pa.array(specs.astype(np.int64)),
    }
    for name in names:
        try:
            columns[name] = pa.array([row.get(name) for row in rows])
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise DataError(
                f"metadata column {name!r}",
                expected="values of one type in all rows",
                found=reason_of(error),
            ) from error
    if splits is not None:
        columns[SPLIT] = pa.array(splits, type=pa.string())
    return pa.table(columns)


def split_names(splits: Mapping[str, Sequence[int]], networks: int) -> list[str | None]:
    """Each network's split, None for those in no split.

    Raises:
        DataError: a network is in two splits, or not in the zoo.
    """
    names: list[str | None] = [None] * networks
    for name, indices in splits.items():
        for index in np.asarray(indices, dtype=np.int64).tolist():
            if not 0 <= index < networks:
                raise DataError(
                    f"split {name!r}",
                    expected=f"networks from 0 to {networks - 1}",
                    found=str(index),
                )
            if names[index] not in (None, name):
                raise DataError(
                    f"splits {names[index]!r} and {name!r}",
                    expected="splits without common networks",
                    found=f"network {index} in both",
                )
            names[index] = name
    return names


def count_splits(table: pa.Table, column: str, names: Iterable[str]) -> dict[str, int]:
    """Count the networks of each split.

    Args:
        table: the metadata.
        column: the column that names each network's split.
        names: the splits to list first, also if they are empty.

    Raises:
        DataError: there is no such column, or a value in it is not a text.
    """
    if column not in table.column_names:
        raise DataError(
            "split column",
            expected=f"one of {', '.join(table.column_names)}",
            found=repr(column),
            hint=similar_name(column, table.column_names),
        )
    counts = dict.fromkeys(names, 0)
    for value in table.column(column).to_pylist():
        if value is not None and not isinstance(value, str):
            raise DataError("split column", expected="names of splits", found=repr(value))
        if value is not None:
            counts[value] = counts.get(value, 0) + 1
    return counts


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, Tensor | np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(name, item) for item in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise DataError(
            f"metadata column {name!r}", expected="integers of 64 bits", found=str(value)[:40]
        )
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise DataError(
        f"metadata column {name!r}",
        expected="a number, text, boolean, None, or a list of them",
        found=f"a {type(value).__name__}",
    )
