"""What a published experiment is: its methods, its budgets, one job, the published values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from weightspace.errors import ModelError

Row = dict[str, float | str]
"""What one job measured; its numbers are averaged over seeds."""


@dataclass(frozen=True)
class Preset:
    """A size at which an experiment is run.

    Args:
        data: the data and how much of it, in a sentence.
        time: how long all jobs take and on what, in a sentence.
        settings: what the experiment needs to know: sizes, steps, epochs.
        seeds: one job a method for each.
    """

    data: str
    time: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = (0, 1, 2)


class Experiment(ABC):
    """A published experiment that anyone can run again.

    A subclass says what it is, makes its data (:meth:`prepare`) and runs one method with one
    seed (:meth:`run`). :func:`weightspace.experiments.reproduce` does the rest: it runs the jobs
    in several processes, keeps each one's row, and writes the table.
    """

    name: ClassVar[str]
    """What the command calls it."""
    task: ClassVar[str]
    """What is done, in a sentence."""
    paper: ClassVar[str]
    """Where the published values are from."""
    metric: ClassVar[str]
    """The key of a job's row by which methods are compared."""
    unit: ClassVar[str] = ""
    """Of the metric, as it stands in the table's head."""
    higher_is_better: ClassVar[bool] = True
    published: ClassVar[Mapping[str, str]]
    """The published value of each method that has one, as text."""
    presets: ClassVar[Mapping[str, Preset]]
    """``cpu``: two cores in under two hours; ``full``: the paper's size, for a GPU; or others."""

    @abstractmethod
    def methods(self, preset: Preset) -> Sequence[str]:
        """The methods that are compared, in the order in which they are run."""

    @abstractmethod
    def prepare(self, preset: Preset, folder: Path) -> None:
        """Make the data in the folder; what is there already is not made again."""

    @abstractmethod
    def run(self, method: str, seed: int, preset: Preset, folder: Path) -> Row:
        """Run one method with one seed; an interrupted job goes on in the folder.

        Returns:
            What was measured on the test split, :attr:`metric` among it.
        """

    def picture(self, preset: Preset, folder: Path, out: Path) -> None:  # noqa: B027
        """Draw figures into a folder, once all jobs are done; there may be none."""

    def preset(self, name: str) -> Preset:
        """A preset by its name.

        Raises:
            ModelError: there is none of this name.
        """
        if name not in self.presets:
            raise ModelError(
                f"{self.name}, preset", expected=f"one of {', '.join(self.presets)}", found=name
            )
        return self.presets[name]
