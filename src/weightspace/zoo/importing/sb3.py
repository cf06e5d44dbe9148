"""Agents of Stable-Baselines3 as its zoo keeps them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar

from weightspace.errors import FileError
from weightspace.importers import read_states
from weightspace.importers.files.magic import kind_of
from weightspace.zoo.importing.found import FoundNetwork, Unit
from weightspace.zoo.importing.layout import Layout
from weightspace.zoo.importing.listing import (
    CHECKPOINT_SUFFIXES,
    GLANCES,
    Listing,
    list_files,
    suffix_of,
)
from weightspace.zoo.importing.states import of_checkpoint
from weightspace.zoo.importing.tables import Row

EVALUATIONS = "evaluations.npz"
_RUN = re.compile(r"(.+)_(\d+)")
_FLAT = re.compile(r"([a-z0-9]+)__(.+)_(\d+)")


@dataclass(frozen=True)
class Sb3Agents(Layout):
    """Zip archives of agents, such as ``ppo/CartPole-v1_1/CartPole-v1.zip``.

    The path tells the algorithm, the environment and the number of the run; returns come from
    ``evaluations.npz`` beside the agent: the mean of the last evaluation and of the best one.
    """

    name: ClassVar[str] = "sb3"
    summary: ClassVar[str] = "Stable-Baselines3 agents, with evaluations.npz beside them"

    @classmethod
    def fits(cls, folder: Path, files: list[str]) -> bool:
        """The checkpoints are zip archives alone, and one of the first is an agent."""
        found = [f for f in files if suffix_of(f) in CHECKPOINT_SUFFIXES]
        found = [f for f in found if PurePosixPath(f).name != EVALUATIONS]
        if any(suffix_of(file) != ".zip" for file in found):
            return False
        return any(_is_agent(folder / file) for file in found[:GLANCES])

    def listing(self, files: list[str]) -> Listing:
        """Every zip archive."""
        return list_files(files, lambda file: suffix_of(file) == ".zip")

    def read(self, unit: Unit) -> Iterator[FoundNetwork]:
        """Read an agent."""
        path = self.folder / unit.file
        network = of_checkpoint(read_states(path), self.activation)
        row, source = _of_path(unit.file)
        notes = network.notes
        evaluations = path.with_name(EVALUATIONS)
        if evaluations.is_file():
            try:
                row |= _returns(evaluations)
            except FileError as error:
                notes = (*notes, f"{EVALUATIONS} could not be read: {error.found}")
        yield dataclasses.replace(network, row={**row, **network.row}, source=source, notes=notes)


def _is_agent(path: Path) -> bool:
    try:
        return kind_of(path) == "sb3"
    except (FileError, OSError):
        return False


def _of_path(file: str) -> tuple[Row, str]:
    """What a path tells: algorithm, environment, run; and the run as the source."""
    path = PurePosixPath(file)
    short = _FLAT.fullmatch(path.stem)
    if short is not None:
        row: Row = {"algo": short[1], "env": short[2], "run": int(short[3])}
        return row, ""
    run = _RUN.fullmatch(path.parent.name)
    if run is None:
        return {}, ""
    algo = path.parent.parent.name
    row = {**({"algo": algo} if algo else {}), "env": run[1], "run": int(run[2])}
    return {**row, "best": path.stem == "best_model"}, path.parent.as_posix()


def _returns(path: Path) -> Row:
    """The mean returns of the last and the best evaluation."""
    results = read_states(path).tensors.get("results")
    if results is None or results.ndim != 2 or not results.numel():
        raise FileError(path, expected="results, an evaluation a row", found="none")
    means = results.double().mean(1)
    return {
        "eval_mean_last": float(means[-1]),
        "eval_mean_best": float(means.max()),
        "evaluations": len(means),
    }
