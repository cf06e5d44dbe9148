"""Recipes: how a zoo is made part by part, and what runs the parts."""

from __future__ import annotations

import contextlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from weightspace.errors import require_between
from weightspace.graph import GraphSpec
from weightspace.zoo.progress import network_progress
from weightspace.zoo.store import Zoo
from weightspace.zoo.workers import available_cores, run_tasks
from weightspace.zoo.writer import ZooWriter

T = TypeVar("T")
R = TypeVar("R")


class MadePart(NamedTuple):
    """A part of a zoo, as a worker sends it back.

    Args:
        part: its number.
        spec: which of the recipe's specs its networks have.
        state: the stacked state, ``[networks, *shape]`` for each tensor.
        rows: the metadata, one row a network. Each has the columns ``split`` (train, val or
            test) and ``seed``, and ``diverged`` where training may diverge.
    """

    part: int
    spec: int
    state: dict[str, npt.NDArray[Any]]
    rows: list[dict[str, Any]]


class PartMaker(Protocol):
    """Makes a part of a zoo; it can be sent to another process."""

    def make_part(self, part: int) -> MadePart:
        """Make a part: a pure function of the maker and the part's number."""


class Recipe(ABC):
    """What makes a zoo, part by part: every random choice is a function of seed and number.

    A recipe is a frozen dataclass that can be sent to another process. A part is made by one
    process with one thread, and does not depend on other parts: so a zoo is the same to the
    bit whatever runs the parts, in whatever order, interrupted or not.
    """

    name: ClassVar[str]
    """What it is called on the command line."""

    @abstractmethod
    def specs(self) -> Sequence[GraphSpec]:
        """The specs of the zoo's networks, all different."""

    @abstractmethod
    def parts(self) -> int:
        """How many parts there are."""

    @abstractmethod
    def networks(self, part: int) -> int:
        """How many networks a part has."""

    @abstractmethod
    def as_dict(self) -> dict[str, Any]:
        """Everything needed to make the zoo again, as plain data: settings, data and hashes."""

    @abstractmethod
    def make_part(self, part: int) -> MadePart:
        """Make a part: a pure function of the recipe and the part's number."""

    def for_part(self, part: int) -> PartMaker:
        """What makes the same part, and is cheap to send to another process.

        A recipe that carries much data overrides this, to send what the part needs.

        Args:
            part: the one part that will be made.
        """
        return self


class Engine(ABC):
    """Runs tasks that do not depend on each other."""

    @abstractmethod
    def run(self, function: Callable[[T], R], tasks: Iterable[T]) -> Generator[R, None, None]:
        """Call a function for each task and yield the results as they come, in any order.

        Args:
            function: importable by name.
            tasks: taken as they are needed, a few more than are running.
        """


@dataclass(frozen=True)
class LocalPool(Engine):
    """Runs tasks in processes of this machine, each with one thread.

    Args:
        workers: how many processes; with 0 one for each core.
    """

    workers: int = 0

    def __post_init__(self) -> None:
        require_between("workers", self.workers, 0, 10_000)

    def run(self, function: Callable[[T], R], tasks: Iterable[T]) -> Generator[R, None, None]:
        """Call a function for each task, see :func:`weightspace.zoo.workers.run_tasks`."""
        waiting = iter(tasks)
        # No more processes than tasks: starting one costs seconds.
        first = list(itertools.islice(waiting, self.workers or available_cores()))
        if first:
            every = itertools.chain(first, waiting)
            yield from run_tasks(function, every, workers=len(first))


def make_zoo(recipe: Recipe, out: Path | str, *, engine: Engine | None = None) -> Zoo:
    """Make a zoo, or go on with one that was interrupted.

    Parts are written as they come; called again after an interruption or a kill, it makes the
    missing ones. On one machine the files are the same, byte for byte, whatever happened.

    Args:
        recipe: what to make.
        out: the zoo's folder.
        engine: what runs the parts; a process for each core if not given.

    Raises:
        FileError: the folder holds something else, or a zoo of another recipe.
        WeightspaceError: the recipe failed, or a worker was killed.
    """
    parts = range(recipe.parts())
    writer = ZooWriter(out, specs=recipe.specs(), recipe=recipe.as_dict(), parts=len(parts))
    todo = [part for part in parts if not writer.has_part(part)]
    if todo:
        total, left = (sum(map(recipe.networks, some)) for some in (parts, todo))
        made = (engine or LocalPool()).run(_make, _tasks(recipe, todo))
        with network_progress() as progress, contextlib.closing(made):
            bar = progress.add_task(recipe.name, total=total, completed=total - left)
            for part in made:
                _write(writer, part)
                progress.advance(bar, len(part.rows))
    return writer.finish(split_column="split")


class _Task(NamedTuple):
    maker: PartMaker
    part: int


def _tasks(recipe: Recipe, parts: Iterable[int]) -> Iterator[_Task]:
    return (_Task(recipe.for_part(part), part) for part in parts)


def _make(task: _Task) -> MadePart:
    return task.maker.make_part(task.part)


def _write(writer: ZooWriter, made: MadePart) -> None:
    # What comes from other processes may lie in memory that is shared, and not to be written to.
    arrays = {name: np.require(array, requirements="W") for name, array in made.state.items()}
    state = {name: torch.from_numpy(array) for name, array in arrays.items()}
    writer.write_part(made.part, state, made.rows, spec=made.spec)
