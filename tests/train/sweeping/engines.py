"""Runs a sweep on other engines: ``python -m tests.train.sweeping.engines FOLDER``."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from tests.train.sweeping.tiny import rows, run, sweep
from weightspace.train.sweeping import run_sweep
from weightspace.zoo.ray_engine import RayEngine
from weightspace.zoo.recipe import Engine, LocalPool


def main(folder: Path) -> None:
    """Compare tables of two processes, and of Ray where it is installed, with one process's."""
    run(folder / "here.parquet")
    engines: list[Engine] = [LocalPool(2)]
    if importlib.util.find_spec("ray"):
        engines.append(RayEngine(1))
    for engine in engines:
        path = folder / f"{type(engine).__name__}.parquet"
        run_sweep(sweep(), path, engine=engine)
        assert rows(path) == rows(folder / "here.parquet"), engine
    sys.stdout.write("same\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
