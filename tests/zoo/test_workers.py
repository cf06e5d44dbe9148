"""Running tasks in several processes."""

from __future__ import annotations

import contextlib
import os
import signal

import pytest
import torch

from weightspace.errors import DataError, ModelError, WeightspaceError
from weightspace.zoo.workers import available_cores, run_tasks


def square(number: int) -> tuple[int, int, int]:
    """The square, who computed it, and with how many threads."""
    return number**2, os.getpid(), torch.get_num_threads()


def fail(number: int) -> int:
    raise DataError(f"task {number}", expected="luck", found="none")


def die(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_one_worker_is_this_process_and_keeps_the_order() -> None:
    threads = torch.get_num_threads()
    results = list(run_tasks(square, range(5), workers=1))
    assert [value for value, _, _ in results] == [0, 1, 4, 9, 16]
    assert {pid for _, pid, _ in results} == {os.getpid()}
    assert {used for _, _, used in results} == {1}
    assert torch.get_num_threads() == threads


def test_several_workers_do_every_task_once() -> None:
    results = list(run_tasks(square, range(40), workers=2))
    assert sorted(value for value, _, _ in results) == [n**2 for n in range(40)]
    assert os.getpid() not in {pid for _, pid, _ in results}
    assert {used for _, _, used in results} == {1}


def test_tasks_are_taken_as_they_are_needed() -> None:
    taken: list[int] = []

    def tasks() -> object:
        for number in range(1000):
            taken.append(number)
            yield number

    with contextlib.closing(run_tasks(square, tasks(), workers=2)) as results:  # type: ignore[arg-type]
        next(results)
    assert len(taken) < 20


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_a_task_arrives(workers: int) -> None:
    with pytest.raises(DataError, match="task 0: expected luck, found none"):
        list(run_tasks(fail, range(1), workers=workers))


def test_a_killed_worker_is_reported() -> None:
    with pytest.raises(WeightspaceError, match="fewer workers"):
        list(run_tasks(die, range(3), workers=2))


def test_at_least_one_worker_is_needed() -> None:
    with pytest.raises(ModelError, match="workers: expected a positive number, found 0"):
        list(run_tasks(square, range(3), workers=0))
    assert available_cores() >= 1
