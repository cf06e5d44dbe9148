"""Results of sweeps from files: Parquet tables of runs, or the published arrays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from weightspace.errors import FileError
from weightspace.relational.analysis.published import read_published
from weightspace.relational.analysis.runs import ControlRuns, EpochRuns, NetworkRuns

if TYPE_CHECKING:
    import pyarrow as pa

Array = npt.NDArray[Any]

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

OPTIONAL = {"epoch": "number", "nodes": "number", "kind": "text", "control_of": "text"}
"""What it may have besides.

``kind`` is ``sweep`` (the graphs of the study), ``complete``, or the name of a control, whose
``control_of`` may name a graph of the sweep. Without it, graphs with clustering and path length
1 are complete and all others of the sweep.
"""

SWEEP, COMPLETE = "sweep", "complete"

Columns = dict[str, Array]


def read_results(path: Path) -> list[NetworkRuns]:
    """Read what a study measured.

    Args:
        path: a Parquet file of runs, a folder of them, or the published ``.npz``.

    Raises:
        FileError: there is nothing, it cannot be read, or a column is missing or of the wrong
            kind.
        DataError: a graph has no run.
    """
    if path.suffix == ".npz":
        return read_published(path)
    files = sorted(path.glob("**/*.parquet")) if path.is_dir() else [path]
    if not files:
        raise FileError(path, expected="a folder with .parquet files of runs", found="none")
    parts = [_columns(file) for file in files]
    names = set.intersection(*(set(part) for part in parts))
    return group_runs(
        {name: np.concatenate([part[name] for part in parts]) for name in names}, path
    )


def group_runs(columns: Columns, source: Path | str = "runs") -> list[NetworkRuns]:
    """Arrange a table's rows by network, graph and seed.

    Args:
        columns: at least :data:`COLUMNS`, of one length.
        source: named in errors.

    Raises:
        FileError: a column is missing, there are no rows, or two of the same run.
    """
    _require_columns([*columns], source)
    if not len(columns["network"]):
        raise FileError(source, expected="rows of runs", found="an empty table")
    kinds = columns.get("kind")
    if kinds is None:
        full = (columns["clustering"] == 1) & (columns["path_length"] == 1)
        columns = columns | {"kind": np.where(full, COMPLETE, SWEEP).astype(object)}
    networks = dict.fromkeys(columns["network"].tolist())
    return [_network(name, _rows(columns, columns["network"] == name), source) for name in networks]


def _network(name: str, columns: Columns, source: Path | str) -> NetworkRuns:
    kinds = dict.fromkeys(columns["kind"].tolist())
    if SWEEP not in kinds:
        raise FileError(
            f"{source}, network {name}",
            expected=f"rows of kind {SWEEP!r}",
            found=", ".join(map(repr, kinds)),
        )
    sweep = _rows(columns, columns["kind"] == SWEEP)
    graphs, errors, epochs = _errors(sweep, name, source)
    first = {graph: i for i, graph in reversed([*enumerate(sweep["graph"].tolist())])}
    chosen = [first[graph] for graph in graphs]
    complete = np.empty(0)
    if COMPLETE in kinds:
        _, found, _ = _errors(_rows(columns, columns["kind"] == COMPLETE), name, source)
        complete = found[-1][np.isfinite(found[-1])]
    return NetworkRuns(
        name,
        tuple(graphs),
        np.stack([sweep["clustering"][chosen], sweep["path_length"][chosen]], 1),
        sweep["degree"][chosen],
        sweep["nodes"][chosen] if "nodes" in sweep else np.full(len(chosen), np.nan),
        errors[-1],
        complete,
        EpochRuns(epochs, errors) if len(epochs) > 1 else None,
        {
            kind: _control(_rows(columns, columns["kind"] == kind), name, source)
            for kind in kinds
            if kind not in {SWEEP, COMPLETE}
        },
    )


def _control(columns: Columns, name: str, source: Path | str) -> ControlRuns:
    graphs, errors, _ = _errors(columns, name, source)
    if "control_of" not in columns:
        return ControlRuns(errors[-1], ("",) * len(graphs))
    originals = dict(zip(columns["graph"].tolist(), columns["control_of"].tolist(), strict=True))
    return ControlRuns(errors[-1], tuple(originals[graph] or "" for graph in graphs))


def _errors(
    columns: Columns, name: str, source: Path | str
) -> tuple[list[str], Float[Array, "epochs graphs seeds"], tuple[int, ...]]:
    """Errors in a box of epochs, graphs and seeds; NaN where there is no row."""
    graphs = [*dict.fromkeys(columns["graph"].tolist())]
    places = {graph: i for i, graph in enumerate(graphs)}
    rows = np.array([places[graph] for graph in columns["graph"].tolist()])
    seeds, seed_places = np.unique(columns["seed"], return_inverse=True)
    steps = columns.get("epoch", np.zeros(len(rows)))
    epochs, epoch_places = np.unique(steps, return_inverse=True)
    errors = np.full((len(epochs), len(graphs), len(seeds)), np.nan)
    taken = np.zeros(errors.shape, dtype=int)
    np.add.at(taken, (epoch_places, rows, seed_places), 1)
    if taken.max() > 1:
        _, graph, seed = np.argwhere(taken > 1)[0]
        raise FileError(
            f"{source}, network {name}",
            expected="one row for each graph, seed and epoch",
            found=f"{taken.max()} of graph {graphs[graph]}, seed {seeds[seed]:g}",
        )
    errors[epoch_places, rows, seed_places] = columns["error"]
    return graphs, errors, tuple(int(epoch) for epoch in epochs)


def _rows(columns: Columns, chosen: Array) -> Columns:
    return {name: values[chosen] for name, values in columns.items()}


def _columns(path: Path) -> Columns:
    """The columns of a Parquet file that an analysis knows."""
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
    _require_columns(table.column_names, path)
    kinds = {
        name: kind for name, kind in (COLUMNS | OPTIONAL).items() if name in table.column_names
    }
    return {name: _values(table[name], name, kind, path) for name, kind in kinds.items()}


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


def _require_columns(names: Sequence[str], source: Path | str) -> None:
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise FileError(
            source,
            expected=f"the columns {', '.join(COLUMNS)}",
            found=f"no column {', '.join(missing)} (columns: {_listed(names)})",
        )


def _listed(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
