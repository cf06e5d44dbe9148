"""Kills a sweep again and again: ``python -m tests.train.sweeping.killing FOLDER``."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tests.train.sweeping.tiny import rows, run
from tests.zoo.killing import run_child
from weightspace.train.sweeping.table import Row, RunTable


def die_after(path: Path, runs: int) -> None:
    """Be killed once so many runs are done, before or while the table is written."""
    add, synchronise, done = RunTable.add, os.fsync, 0

    def counted(self: RunTable, own: list[Row]) -> None:
        nonlocal done
        done += 1
        add(self, own)
        if done == runs and runs % 2:
            os.kill(os.getpid(), signal.SIGKILL)

    def half(descriptor: int) -> None:
        if done >= runs:
            os.ftruncate(descriptor, os.fstat(descriptor).st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        synchronise(descriptor)

    RunTable.add = counted  # type: ignore[method-assign]
    os.fsync = half
    run(path)


def main(folder: Path) -> None:
    """Compare tables that were interrupted with one that was not."""
    run(folder / "calm.parquet")
    calm = rows(folder / "calm.parquet")
    for first in (1, 2):
        path = folder / f"killed-{first}.parquet"
        kills = 0
        for runs in range(first, first + 9, 2):
            ended = run_child(die_after, path, runs)
            kills += ended == signal.SIGKILL
            if path.exists():
                there = rows(path)
                assert all(row in calm for row in there)
        assert kills, first
        assert run_child(run, path) == 0
        assert rows(path) == calm
        assert sorted(own.name for own in folder.iterdir() if own.name.startswith(".")) == []
    sys.stdout.write("same\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
