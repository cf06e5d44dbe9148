"""Makes a zoo in processes that are killed, as a script: ``python -m tests.zoo.killing``.

One process imports everything and forks for each try, so that a try costs milliseconds.
"""

from __future__ import annotations

import os
import random
import signal
import stat
import sys
import time
from pathlib import Path
from typing import Any

from tests.zoo.zoos import MLP, RECIPE, SIREN, contents, random_states, rows
from weightspace.zoo import ZooWriter

PARTS = [(0, 3), (1, 2), (0, 4)]  # the spec and the number of networks


def make(folder: Path, pause: float = 0.0) -> None:
    """Make the zoo, or go on with it. Order and numbers do not depend on interruptions."""
    writer = ZooWriter(folder, specs=[SIREN, MLP], recipe=RECIPE, parts=len(PARTS))
    for part in (1, 0, 2):
        if not writer.has_part(part):
            spec, count = PARTS[part]
            time.sleep(pause)
            states = random_states(writer.specs[spec], count, seed=part)
            first = sum(networks for _, networks in PARTS[:part])
            writer.write_part(part, states, rows(first, count), spec=spec)
    writer.finish(splits={"train": range(5), "test": range(5, 9)})


def die_at_event(folder: Path, number: int) -> None:
    """Make the zoo, but be killed before the n-th change of the folder, or half through it."""
    count = 0
    synchronise = os.fsync

    def happens(descriptor: int | None = None) -> None:
        nonlocal count
        count += 1
        if count == number:
            if descriptor is not None:
                os.ftruncate(descriptor, os.fstat(descriptor).st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        changes = event in {"os.rename", "os.remove", "os.mkdir"} or (
            event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wx")
        )
        if changes and str(arguments[0]).startswith(str(folder)):
            happens()

    def fsync(descriptor: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            happens(descriptor)
        synchronise(descriptor)

    os.fsync = fsync
    sys.addaudithook(hook)
    make(folder)


def run_child(function: Any, *arguments: Any, kill_after: float | None = None) -> int:
    """Run a function in a fork; returns the signal that ended it, or minus its status."""
    pid = os.fork()
    if pid == 0:
        try:
            function(*arguments)
            os._exit(0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status)


def main(folder: Path) -> None:
    """Kill at every event, then at random times, and compare with an undisturbed zoo."""
    make(folder / "calm")
    calm = contents(folder / "calm")
    events = 0
    while True:
        zoo = folder / f"event {events}"
        ended = run_child(die_at_event, zoo, events + 1)
        if ended == 0:
            break
        assert ended == signal.SIGKILL, ended
        events += 1
        assert run_child(make, zoo) == 0, events
        assert contents(zoo) == calm, (events, contents(zoo).keys())
    chance = random.Random(0)
    kills = 0
    for attempt in range(10):
        zoo = folder / f"random {attempt}"
        while run_child(make, zoo, 0.01, kill_after=chance.uniform(0, 0.06)) != 0:
            kills += 1
        assert contents(zoo) == calm, attempt
    sys.stdout.write(f"{events} events, {kills} kills\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
