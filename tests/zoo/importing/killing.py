"""Imports a folder in processes that are killed: ``python -m tests.zoo.importing.killing``."""

from __future__ import annotations

import random
import signal
import sys
from pathlib import Path

from tests.zoo.importing import folders
from tests.zoo.killing import run_child
from tests.zoo.zoos import contents
from weightspace.zoo.importing import import_zoo, importing, parts

importing.BLOCK, parts.PART_NETWORKS = 2, 3


def take_in(folder: Path, out: Path) -> None:
    """Import, or go on with it."""
    import_zoo(folder, out)


def main(folder: Path) -> None:
    """Kill at random times until an import comes to its end, and compare with a calm one."""
    for number in range(8):
        sizes = (2, 3 + number % 3, 1)
        folders.save(folder / f"in/{number}.pt", folders.mlp_state(sizes, seed=number))
    (folder / "in/bad.pt").write_bytes(b"")
    take_in(folder / "in", folder / "calm")
    calm = contents(folder / "calm")
    chance = random.Random(0)
    kills = 0
    for attempt in range(3):
        out = folder / f"zoo {attempt}"
        limit = 0.01
        while (ended := run_child(take_in, folder / "in", out, kill_after=limit)) != 0:
            assert ended == signal.SIGKILL, ended
            kills += 1
            limit = min(1.0, limit * chance.uniform(1.0, 1.5))
        assert contents(out) == calm, attempt
        assert not list(folder.glob(".*import")), attempt
    sys.stdout.write(f"{kills} kills\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
