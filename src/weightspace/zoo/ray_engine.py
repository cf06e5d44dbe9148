"""Making zoos on a Ray cluster."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from weightspace.errors import ModelError, WeightspaceError, require_between
from weightspace.zoo.recipe import Engine
from weightspace.zoo.workers import available_cores, single_thread

T = TypeVar("T")
R = TypeVar("R")

TRIES = 3
"""How often a task is tried again whose worker was killed or whose machine was lost."""


@dataclass(frozen=True)
class RayEngine(Engine):
    """Runs tasks on Ray, on this machine or on many (extra ``ray``).

    Where Ray is not running already, it joins the cluster that the environment variable
    ``RAY_ADDRESS`` names, or else starts one on this machine and stops it at the end. The
    machines of a cluster need weightspace installed, and recipes that name files need them there.
    A task takes one core and computes with one thread, so results are those of the local pool.

    Args:
        workers: how many tasks run at a time; with 0 as many as the cluster has cores.

    Raises:
        ModelError: Ray is not installed.
    """

    workers: int = 0

    def __post_init__(self) -> None:
        require_between("workers", self.workers, 0, 100_000)
        _import_ray()

    def run(self, function: Callable[[T], R], tasks: Iterable[T]) -> Generator[R, None, None]:
        """Call a function for each task and yield the results as they come.

        Few tasks more than workers are on their way at a time, so that few are in memory. A task
        whose worker is killed is tried again.

        Raises:
            WeightspaceError: the function raised it, or a task's worker was lost too often.
        """
        ray = _import_ray()
        with _cluster(ray, self.workers) as limit:
            remote = ray.remote(num_cpus=1, max_retries=TRIES)(_run_alone)
            pending: list[Any] = []
            try:
                waiting = iter(tasks)
                while True:
                    while len(pending) < limit and (task := next(waiting, None)) is not None:
                        pending.append(remote.remote(function, task))
                    if not pending:
                        break
                    done, pending = ray.wait(pending, num_returns=1)
                    yield _result(ray, done[0])
            finally:
                for reference in pending:
                    ray.cancel(reference, force=True)


@contextlib.contextmanager
def _cluster(ray: Any, workers: int) -> Iterator[int]:
    """Join a cluster or start one; how many tasks may be on their way."""
    started = not ray.is_initialized()
    joined = not started or "RAY_ADDRESS" in os.environ
    if started:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent unasked
        size = {} if joined else {"num_cpus": workers or available_cores()}
        ray.init(log_to_driver=False, logging_level=logging.WARNING, **size)
    try:
        cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
        # On a cluster of others all tasks on their way may run; on an own one those of its size.
        yield workers if joined and workers else 2 * cores
    finally:
        if started:
            ray.shutdown()


def _run_alone(function: Callable[[T], R], task: T) -> R:
    with single_thread():
        return function(task)


def _result(ray: Any, reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error
    except ray.exceptions.RayError as error:
        raise WeightspaceError(
            "Ray task",
            expected=f"an end of its own within {TRIES + 1} tries",
            found=str(error).strip().partition("\n")[0],
            hint="Perhaps memory ran out: run the command again with fewer workers.",
        ) from error


def _import_ray() -> Any:
    try:
        import ray  # noqa: PLC0415 (an extra, and slow to import)
    except ImportError as error:
        raise ModelError(
            "engine",
            expected="Ray, to run tasks on it",
            found="no package ray",
            hint="Install it with pip install 'weightspace[ray]', or use the local engine.",
        ) from error
    return ray
