"""Sweeps over graphs, seeds, networks and images: what is run, in which order, and resumed."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from weightspace.errors import LARGEST_SEED, DataError, FileError, ModelError, require_between
from weightspace.relational.analysis.reading import COMPLETE, SWEEP
from weightspace.train.sweeping.data import SweepData
from weightspace.train.sweeping.halving import rungs, survivors
from weightspace.train.sweeping.networks import SweepNetwork
from weightspace.train.sweeping.table import (
    Row,
    RunKey,
    RunTable,
    finished,
    only_writer,
    run_key,
)
from weightspace.train.sweeping.training import Training, train_network
from weightspace.train.sweeping.wired import Wired
from weightspace.zoo.progress import network_progress
from weightspace.zoo.recipe import Engine, LocalPool

_DIGITS = 16  # of a graph's fingerprint
_KEPT = 4  # epochs at which a run is measured, if halving does not ask for others


@dataclass(frozen=True)
class Sweep:
    """What a sweep runs.

    Args:
        wirings: graphs of kind ``sweep``, and controls.
        networks: of different names.
        data: sets of images of different names.
        training: of every run.
        seeds: how many runs of each, with seeds 0, 1, ...
        halving: if positive, one graph in so many goes on from rung to rung.

    Raises:
        DataError: there is nothing of a kind, or two of one name.
        ModelError: an option is out of its range.
    """

    wirings: Sequence[Wired]
    networks: Sequence[SweepNetwork]
    data: Sequence[SweepData]
    training: Training = field(default_factory=Training)
    seeds: int = 3
    halving: int = 0

    def __post_init__(self) -> None:
        require_between("seeds", self.seeds, 1, LARGEST_SEED)
        for subject, names in (
            ("graphs", [(w.kind, w.name) for w in self.wirings]),
            ("networks", [network.name for network in self.networks]),
            ("data", [data.name for data in self.data]),
        ):
            if not names or len(set(names)) < len(names):
                raise DataError(
                    f"{subject} of a sweep",
                    expected="at least one, of different names",
                    found=", ".join(map(str, names))[:200] or "none",
                )
        if self.halving:
            rungs(self.training.epochs, self.halving)

    @property
    def stops(self) -> tuple[int, ...]:
        """The epochs at which graphs are stopped; without halving the last alone."""
        epochs = self.training.epochs
        return rungs(epochs, self.halving) if self.halving else (epochs,)

    @property
    def measured(self) -> tuple[int, ...]:
        """The epochs after which a run is measured."""
        epochs = self.training.epochs
        even = {-(-epochs * i // _KEPT) for i in range(1, _KEPT + 1)}
        return tuple(sorted({1, *even, *self.stops}))

    def settings(self) -> dict[str, Any]:
        """All that decides results beside what a row says."""
        return {
            "training": self.training.as_dict(),
            "measured": [*self.measured],
            "halving": self.halving,
            "data": [data.as_dict() for data in self.data],
            "networks": {network.name: network.as_dict() for network in self.networks},
        }


@dataclass(frozen=True)
class SweepSummary:
    """What a sweep did.

    Args:
        path: of the table.
        runs: in the table, by kind.
        new: runs that this call made.
        diverged: runs in the table without an error at their end.
        stopped: graphs that halving stopped early, by network.
        seconds: of this call.
    """

    path: Path
    runs: dict[str, int]
    new: int
    diverged: int
    stopped: dict[str, int]
    seconds: float


def run_sweep(sweep: Sweep, out: Path | str, *, engine: Engine | None = None) -> SweepSummary:
    """Run what a sweep lacks.

    Every run is a function of its graph, network, images, training and seed, computed with one
    thread. So the table is the same (but for the seconds) whatever runs it, in whatever order,
    interrupted or not; more graphs, seeds or networks can be added later.

    Args:
        sweep: what to run.
        out: the table, a Parquet file.
        engine: what runs it; a process for each core if not given.

    Raises:
        GraphError: a graph does not fit a network.
        FileError: the file is of something else, or of another sweep.
    """
    start = time.monotonic()
    path = Path(out)
    for network, data in itertools.product(sweep.networks, sweep.data):
        _check(sweep.wirings, network, data)
    with only_writer(path):
        work = _Work(sweep, RunTable(path, sweep.settings()), engine or LocalPool())
        with network_progress("runs") as progress:
            bar = progress.add_task("sweep", total=None)
            for done, total in work.run():
                progress.update(bar, completed=done, total=total)
        return work.summary(time.monotonic() - start)


class _Run(NamedTuple):
    """A run as it is sent to a process."""

    network: SweepNetwork
    wired: Wired
    data: SweepData
    training: Training
    seed: int
    measured: tuple[int, ...]
    name: str

    @property
    def key(self) -> RunKey:
        return RunKey(self.name, self.wired.kind, self.wired.name, self.seed)

    @property
    def stop(self) -> int:
        return self.measured[-1]


class _Work:
    """A sweep that is running: what is to be done, and what was."""

    def __init__(self, sweep: Sweep, table: RunTable, engine: Engine) -> None:
        self.sweep, self.table, self.engine = sweep, table, engine
        self.new = 0
        self.stopped: dict[str, int] = {}

    def run(self) -> Iterator[tuple[int, int]]:
        """Run rung after rung, then controls; how many runs are done, and of how many."""
        graphs = [wired for wired in self.sweep.wirings if wired.kind == SWEEP]
        others = [wired for wired in self.sweep.wirings if wired.kind != SWEEP]
        try:
            kept = {name: {wired.name for wired in graphs} for name in self._names()}
            for stop in self.sweep.stops[:-1]:
                yield from self._all(self._runs(graphs, kept, stop))
                kept = {name: self._survivors(name, kept[name], stop) for name in kept}
            self.stopped = {name: len(graphs) - len(own) for name, own in kept.items()}
            wanted = self._runs([*graphs, *others], kept, self.sweep.stops[-1])
            yield from self._all(wanted)
        finally:
            self.table.write()

    def summary(self, seconds: float) -> SweepSummary:
        runs: dict[str, int] = {}
        diverged = 0
        for rows in _by_run(self.table.rows):
            runs[rows[-1]["kind"]] = runs.get(rows[-1]["kind"], 0) + 1
            diverged += not np.isfinite(rows[-1]["error"])
        return SweepSummary(self.table.path, runs, self.new, diverged, self.stopped, seconds)

    def _all(self, runs: list[_Run]) -> Iterator[tuple[int, int]]:
        todo = [run for run in runs if not self._has(run)]
        done = len(runs) - len(todo)
        yield done, len(runs)
        made = self.engine.run(_make, todo)
        with contextlib.closing(made):
            for rows in made:
                self.table.add(rows)
                self.new += 1
                done += 1
                yield done, len(runs)

    def _has(self, run: _Run) -> bool:
        rows = self.table.run(run.key)
        if rows and rows[0]["fingerprint"] != run.wired.graph.fingerprint[:_DIGITS]:
            raise FileError(
                self.table.path,
                expected=f"runs of {run.wired.graph!r}",
                found="runs of another graph of this name",
                hint="Choose another file, or another name for the graph.",
            )
        return finished(rows, run.stop)

    def _runs(self, wirings: list[Wired], kept: dict[str, set[str]], stop: int) -> list[_Run]:
        """The runs of a rung: a seed of everything before the next, graphs before controls."""
        sweep = self.sweep
        measured = tuple(epoch for epoch in sweep.measured if epoch <= stop)
        places = itertools.product(range(sweep.seeds), sweep.networks, sweep.data, wirings)
        found = []
        for seed, network, data, wired in places:
            name = self._name(network, data)
            compared = wired.name if wired.kind == SWEEP else wired.control_of
            if network.can(wired) and (not compared or compared in kept[name]):
                found.append(_Run(network, wired, data, sweep.training, seed, measured, name))
        return found

    def _survivors(self, name: str, kept: set[str], stop: int) -> set[str]:
        """By the mean validation error over seeds at a rung."""
        errors = {}
        for graph in sorted(kept):
            runs = [
                self.table.run(RunKey(name, SWEEP, graph, seed)) for seed in range(self.sweep.seeds)
            ]
            at = [row["validation_error"] for rows in runs for row in rows if row["epoch"] == stop]
            errors[graph] = float(np.mean(at))
        return survivors(errors, self.sweep.halving)

    def _names(self) -> list[str]:
        pairs = itertools.product(self.sweep.networks, self.sweep.data)
        return [self._name(network, data) for network, data in pairs]

    def _name(self, network: SweepNetwork, data: SweepData) -> str:
        """What an analysis calls a network: with its images, if there are several sets."""
        return network.name if len(self.sweep.data) == 1 else f"{network.name} on {data.name}"


def _make(run: _Run) -> list[Row]:
    """Run one; all rows of it."""
    start = time.monotonic()
    wired, data = run.wired, run.data
    built = run.network.build(wired, data.shape, data.classes)
    measured = train_network(built.make, data, run.training, seed=run.seed, measured=run.measured)
    clustering, path_length = wired.place
    common: Row = {
        "network": run.name,
        "graph": wired.name,
        "kind": wired.kind,
        "control_of": wired.control_of,
        "clustering": clustering,
        "path_length": path_length,
        "degree": wired.degree,
        "density": wired.density,
        "nodes": wired.graph.n,
        "fingerprint": wired.graph.fingerprint[:_DIGITS],
        "seed": run.seed,
        "epochs": run.training.epochs,
        "stop": run.stop,
        "match": wired.match,
        "asked": built.asked,
        "got": built.got,
        "flops": built.flops,
        "parameters": built.parameters,
        "width": built.width,
        "data": data.name,
        "seconds": time.monotonic() - start,
    }
    return [common | vars(own) for own in measured]


def _check(wirings: Sequence[Wired], network: SweepNetwork, data: SweepData) -> None:
    """Check the graph of the most nodes before anything is trained."""
    graphs = [wired.graph for wired in wirings if not wired.groups and wired.kind != COMPLETE]
    if not any(wired.kind == SWEEP for wired in wirings):
        raise ModelError("sweep", expected="graphs of kind 'sweep'", found="controls alone")
    network.check(max(graphs, key=lambda graph: graph.n), data.shape, data.classes)


def _by_run(rows: list[Row]) -> Iterator[list[Row]]:
    for _, own in itertools.groupby(rows, run_key):
        yield [*own]
