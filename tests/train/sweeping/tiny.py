"""A sweep that takes a second."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow.parquet as pq

from weightspace.relational import ring, ws_flex
from weightspace.train.sweeping import (
    MlpNetwork,
    Sweep,
    SweepData,
    SweepSummary,
    Training,
    controls,
    run_sweep,
    wirings,
)
from weightspace.zoo.recipe import Engine, LocalPool

T = TypeVar("T")
R = TypeVar("R")

GRAPHS = wirings([ring(8), ws_flex(8, 4, 0.3, seed=0), ws_flex(8, 5, 0.5, seed=1)])
TRAINING = Training(epochs=2, batch=16)


def images(name: str = "dots", size: int = 4) -> SweepData:
    """Noise with a bright row that tells the class."""
    random = np.random.default_rng(0)
    parts, labels = {}, {}
    for part, count in (("train", 70), ("validation", 40), ("test", 60)):
        labels[part] = random.integers(0, 3, count)
        parts[part] = random.integers(0, 120, (count, 1, size, size), dtype=np.uint8)
        parts[part][range(count), 0, labels[part]] += 90
    return SweepData(name, parts, labels, 3)


def sweep(**changes: Any) -> Sweep:
    """Three graphs and the complete one, two seeds of a small MLP."""
    settings: dict[str, Any] = {
        "wirings": [*GRAPHS, *controls(GRAPHS, ["complete"])],
        "networks": [MlpNetwork(8, layers=2)],
        "data": [images()],
        "training": TRAINING,
        "seeds": 2,
    }
    return Sweep(**(settings | changes))


def run(path: Path, **changes: Any) -> SweepSummary:
    """Run it in this process."""
    return run_sweep(sweep(**changes), path, engine=LocalPool(1))


def rows(path: Path) -> list[dict[str, Any]]:
    """All rows but for the seconds."""
    found: list[dict[str, Any]] = pq.ParquetFile(path).read().to_pylist()
    return [{key: value for key, value in row.items() if key != "seconds"} for row in found]


class Backwards(Engine):
    """Runs the last task first."""

    def run(self, function: Callable[[T], R], tasks: Iterable[T]) -> Generator[R, None, None]:
        """Call a function for each task."""
        for task in reversed([*tasks]):
            yield function(task)
