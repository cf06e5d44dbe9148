"""Results of sweeps from files: Parquet tables of runs, or the published arrays."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from weightspace.errors import FileError
from weightspace.relational.analysis.columns import Columns, read_columns, require_columns
from weightspace.relational.analysis.published import read_published
from weightspace.relational.analysis.runs import ControlRuns, EpochRuns, NetworkRuns

Array = npt.NDArray[Any]

SWEEP, COMPLETE = "sweep", "complete"

logger = logging.getLogger(__name__)


def read_results(path: Path) -> list[NetworkRuns]:
    """Read what a study measured.

    Args:
        path: a Parquet file of runs, a folder of them, or the published ``.npz``.

    Raises:
        FileError: there is nothing, it cannot be read, or a column is missing or of the wrong
            kind.
    """
    if path.suffix == ".npz":
        return read_published(path)
    files = sorted(path.glob("**/*.parquet")) if path.is_dir() else [path]
    if not files:
        raise FileError(path, expected="a folder with .parquet files of runs", found="none")
    parts = [read_columns(file) for file in files]
    names = set.intersection(*(set(part) for part in parts))
    return group_runs(
        {name: np.concatenate([part[name] for part in parts]) for name in names}, path
    )


def group_runs(columns: Columns, source: Path | str = "runs") -> list[NetworkRuns]:
    """Arrange a table's rows by network, graph and seed.

    Graphs none of whose runs came to the end are left out, with a warning.

    Args:
        columns: at least ``weightspace.relational.analysis.columns.COLUMNS``, of one length.
        source: named in errors.

    Raises:
        FileError: a column is missing, there are no rows, or two of the same run.
    """
    require_columns([*columns], source)
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
    graphs, errors, epochs = _finished(*_errors(sweep, name, source), name, source)
    stopped = _stopped(sweep) - {*graphs}
    _tell_left_out(name, len({*sweep["graph"].tolist()}), len(graphs), len(stopped))
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
        len(stopped),
    )


def _finished(
    graphs: list[str],
    errors: Float[Array, "epochs graphs seeds"],
    epochs: tuple[int, ...],
    name: str,
    source: Path | str,
) -> tuple[list[str], Float[Array, "epochs finished seeds"], tuple[int, ...]]:
    """Leave out graphs none of whose runs came to the end."""
    ended = np.isfinite(errors[-1]).any(1)
    if not ended.any():
        raise FileError(
            f"{source}, network {name}",
            expected="at least one run with an error at the end of training",
            found="none",
        )
    kept = [graph for graph, own in zip(graphs, ended, strict=True) if own]
    return kept, errors[:, ended], epochs


def _tell_left_out(name: str, graphs: int, kept: int, stopped: int) -> None:
    """Warn of graphs that failed, and of those that halving stopped."""
    if failed := graphs - kept - stopped:
        logger.warning(
            "%s: %d of %d graphs are left out: none of their runs has an error at the end",
            name,
            failed,
            graphs,
        )
    if stopped:
        logger.warning(
            "%s: halving stopped %d of %d graphs early; those left were selected for low errors",
            name,
            stopped,
            graphs,
        )


def _stopped(columns: Columns) -> set[str]:
    """Graphs all of whose runs were stopped before the end."""
    if "stop" not in columns or "epochs" not in columns:
        return set()
    whole = columns["stop"] >= columns["epochs"]
    return {*columns["graph"].tolist()} - {*columns["graph"][whole].tolist()}


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
