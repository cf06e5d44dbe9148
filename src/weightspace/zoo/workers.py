"""Running the parts of a recipe in several processes."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import TypeVar

import torch

from weightspace.errors import ModelError, WeightspaceError

T = TypeVar("T")
R = TypeVar("R")


def run_tasks(
    function: Callable[[T], R], tasks: Iterable[T], *, workers: int
) -> Generator[R, None, None]:
    """Call a function for each task and yield the results as they come.

    Each worker is a process that computes with one thread: small networks gain more from
    that than from several threads, and the results do not depend on the number of workers.
    One worker is this process. Processes are started anew, so a script that uses more than
    one must have its entry point under ``if __name__ == "__main__"``. Interrupted or killed,
    the caller takes its workers with it; close the iterator when
    leaving it early.

    Args:
        function: importable by name.
        tasks: what can be sent to another process; numpy arrays rather than tensors.
        workers: how many processes.

    Raises:
        ModelError: the number of workers is not positive.
        WeightspaceError: a worker was killed.
    """
    if workers < 1:
        raise ModelError("workers", expected="a positive number", found=str(workers))
    if workers == 1:
        yield from _run_here(function, tasks)
    else:
        yield from _run_in_processes(function, tasks, workers)


def available_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextlib.contextmanager
def single_thread() -> Iterator[None]:
    """Compute with one thread inside the block."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _run_here(function: Callable[[T], R], tasks: Iterable[T]) -> Generator[R, None, None]:
    for task in tasks:
        with single_thread():
            result = function(task)
        yield result


def _run_in_processes(
    function: Callable[[T], R], tasks: Iterable[T], workers: int
) -> Generator[R, None, None]:
    context = get_context("spawn")
    lifeline, held = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(lifeline,))
    try:
        waiting = iter(tasks)
        pending: set[Future[R]] = set()
        while True:
            # A few tasks more than workers: none waits for one, and few are in memory.
            while len(pending) < 2 * workers and (task := next(waiting, None)) is not None:
                pending.add(pool.submit(function, task))
            if not pending:
                break
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
        pool.shutdown()
    except BrokenProcessPool as error:
        raise WeightspaceError(
            "worker process",
            expected="an end of its own",
            found="one from outside",
            hint="Perhaps memory ran out: run the command again with fewer workers.",
        ) from error
    finally:
        held.close()
        lifeline.close()
        pool.shutdown(cancel_futures=True)


def _begin(lifeline: Connection) -> None:
    """Prepare a worker: one thread, and an end with the process that started it."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()


def _end_with(lifeline: Connection) -> None:
    """Wait until the other end of the line is closed, by intent or by a kill."""
    with contextlib.suppress(EOFError, OSError):
        lifeline.recv()
    os._exit(1)
