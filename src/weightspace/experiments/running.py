"""Running an experiment's jobs, each once, in several processes."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from weightspace.errors import WeightspaceError
from weightspace.experiments.experiment import Experiment, Row
from weightspace.experiments.results import Results
from weightspace.zoo.progress import network_progress
from weightspace.zoo.store_files import write_file
from weightspace.zoo.workers import run_tasks

WORK, RESULTS = "work", "results"


@dataclass(frozen=True)
class Failure:
    """A job that bad input stopped; the others went on.

    Args:
        method: its method.
        seed: its seed.
        message: the error's.
    """

    method: str
    seed: int
    message: str


@dataclass(frozen=True)
class Reproduced:
    """A run of an experiment.

    Args:
        results: all jobs that are done, of this run and earlier ones.
        failures: jobs of this run that failed.
        folder: holds ``results/PRESET.json``, ``results/PRESET.md`` and figures.
    """

    results: Results
    failures: tuple[Failure, ...]
    folder: Path


def reproduce(
    experiment: Experiment,
    preset: str,
    folder: Path,
    *,
    methods: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    jobs: int = 1,
) -> Reproduced:
    """Run an experiment, or go on with it, and write its table.

    Data and unfinished jobs lie in ``folder/work/PRESET``; a job that is done is not run again.
    The table is written after every job, so an interrupted run leaves what it found.

    Args:
        experiment: what is run.
        preset: the name of its size.
        folder: for work and results.
        methods: some of the experiment's, or None for all.
        seeds: some seeds, or None for the preset's.
        jobs: how many processes, of one thread each.

    Raises:
        WeightspaceError: the preset or a method is unknown, or data cannot be made.
    """
    chosen = experiment.preset(preset)
    work = folder / WORK / preset
    known = tuple(experiment.methods(chosen))
    wanted = tuple(methods) if methods is not None else known
    if unknown := [method for method in wanted if method not in known]:
        raise WeightspaceError(
            f"{experiment.name}, method",
            expected=f"one of {', '.join(known)}",
            found=", ".join(unknown),
        )
    experiment.prepare(chosen, work)
    tasks = [
        _Job(experiment, preset, str(work), method, seed)
        for seed in (chosen.seeds if seeds is None else seeds)
        for method in wanted
    ]
    failures = []
    for outcome in _run(tasks, jobs):
        if isinstance(outcome, Failure):
            failures.append(outcome)
        _write_results(experiment, preset, folder)
    results = _write_results(experiment, preset, folder)
    experiment.picture(chosen, work, folder / "figures")
    return Reproduced(results, tuple(failures), folder)


@dataclass(frozen=True)
class _Job:
    """One method with one seed, in a form that can be sent to another process."""

    experiment: Experiment
    preset: str
    work: str
    method: str
    seed: int

    @property
    def kept(self) -> Path:
        """Where its row is kept once it is done."""
        return _rows_folder(Path(self.work)) / f"{self.method}-{self.seed}.json"


def _run(tasks: Sequence[_Job], jobs: int) -> Iterator[Row | Failure]:
    todo = [task for task in tasks if not task.kept.is_file()]
    outcomes = run_tasks(_run_job, todo, workers=min(jobs, max(1, len(todo))))
    with network_progress("jobs") as progress, contextlib.closing(outcomes):
        bar = progress.add_task("jobs", total=len(tasks), completed=len(tasks) - len(todo))
        for outcome in outcomes:
            progress.advance(bar)
            yield outcome


def _run_job(job: _Job) -> Row | Failure:
    """Run a job and keep its row."""
    folder = Path(job.work) / "jobs" / f"{job.method}-{job.seed}"
    folder.mkdir(parents=True, exist_ok=True)
    before = time.process_time()
    try:
        row = job.experiment.run(
            job.method, job.seed, job.experiment.preset(job.preset), Path(job.work)
        )
    except WeightspaceError as error:
        return Failure(job.method, job.seed, str(error))
    row = {**row, "cpu_seconds": time.process_time() - before, "seed": job.seed}
    _write(job.kept, json.dumps(row))
    return row


def _rows_folder(work: Path) -> Path:
    return work / "rows"


def _write_results(experiment: Experiment, preset: str, folder: Path) -> Results:
    """Write the table of all jobs that are done."""
    work = folder / WORK / preset
    rows: dict[str, list[Row]] = {m: [] for m in experiment.methods(experiment.preset(preset))}
    for method, own in rows.items():
        for path in sorted(_rows_folder(work).glob(f"{method}-*.json")):
            if path.stem.removeprefix(f"{method}-").isdigit():
                own.append(json.loads(path.read_text()))
    results = Results.of(
        experiment,
        preset,
        rows,
        command=f"weightspace reproduce {experiment.name} --preset {preset}",
        machine=_machine(),
    )
    if results.methods:
        out = folder / RESULTS
        _write(out / f"{preset}.json", json.dumps(results.to_dict(), indent=1) + "\n")
        _write(out / f"{preset}.md", results.to_markdown())
    return results


def _machine() -> str:
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}, "
        f"torch {torch.__version__}"
    )


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, text.encode())
