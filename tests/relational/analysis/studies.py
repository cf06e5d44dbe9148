"""Studies with a known truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from weightspace.relational.analysis import EpochRuns, NetworkRuns

Array = npt.NDArray[Any]


def study(
    graphs: int = 60,
    seeds: int = 4,
    *,
    noise: float = 0.1,
    name: str = "net",
    seed: int = 0,
    epochs: int = 0,
    labels: str = "g",
) -> NetworkRuns:
    """Errors with a bowl at C = 0.5, L = 2 and independent noise of a run."""
    random = np.random.default_rng(seed)
    c = random.uniform(0.1, 0.9, graphs)
    length = random.uniform(1.2, 3.0, graphs)
    true = truth(c, length)
    errors = true[:, None] + noise * random.normal(size=(graphs, seeds))
    history = None
    if epochs:
        fade = np.linspace(1, 0, epochs)[:, None, None]
        rough = errors + 3 * fade * (5 + random.normal(size=(epochs, graphs, seeds)))
        history = EpochRuns(tuple(range(epochs)), rough)
    return NetworkRuns(
        name,
        tuple(f"{labels}{i}" for i in range(graphs)),
        np.stack([c, length], 1),
        random.uniform(4, 30, graphs),
        np.full(graphs, 64.0),
        errors,
        35 + noise * random.normal(size=seeds),
        history,
    )


def truth(c: Array, length: Array) -> Array:
    """The true error of a place."""
    found: Array = 30 + 8 * (c - 0.5) ** 2 + 2 * (length - 2) ** 2
    return found


def write_rows(path: Path, runs: NetworkRuns, **extra: Any) -> Path:
    """A Parquet file with a row for each run of the sweep and of the complete graph."""
    rows = [
        {
            "network": runs.name,
            "graph": runs.graphs[i],
            "clustering": float(runs.places[i, 0]),
            "path_length": float(runs.places[i, 1]),
            "degree": float(runs.degrees[i]),
            "seed": j,
            "error": float(runs.errors[i, j]),
        }
        for i in range(len(runs.graphs))
        for j in range(runs.seeds)
    ]
    rows += [
        rows[0]
        | {
            "graph": "complete",
            "clustering": 1.0,
            "path_length": 1.0,
            "degree": 63.0,
            "seed": j,
            "error": float(error),
        }
        for j, error in enumerate(runs.complete)
    ]
    table = pa.Table.from_pylist([row | extra for row in rows])
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return path
