"""Model zoos that Ray Tune made: a folder a trial, a folder a checkpoint."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from weightspace.errors import FileError
from weightspace.zoo.importing.blueprints import activation_name
from weightspace.zoo.importing.checkpoints import has_magic, only
from weightspace.zoo.importing.found import FoundNetwork, Unit
from weightspace.zoo.importing.layout import Layout
from weightspace.zoo.importing.listing import CHECKPOINT_SUFFIXES, Listing, list_files, suffix_of
from weightspace.zoo.importing.states import read_networks
from weightspace.zoo.importing.tables import Row, flat, read_json_value, read_text

CHECKPOINT = re.compile(r"checkpoint_(\d+)")
BOOKKEEPING = {
    "pid", "hostname", "node_ip", "trial_id", "experiment_id", "experiment_tag", "date",
    "timestamp", "done", "should_checkpoint", "timesteps_since_restore", "warmup_time",
    "iterations_since_restore", "time_since_restore", "time_this_iter_s", "episodes_total",
    "timesteps_total", "timesteps_this_iter", "cuda", "verbosity",
}  # fmt: skip
"""What Ray writes of machines and processes; it tells nothing of the networks."""
_OTHERS = ("optimizer", "scheduler", "scaler")
_TRIALS = 64


@dataclass(frozen=True)
class RayTrials(Layout):
    """Trials with ``params.json``, ``result.json`` and ``checkpoint_000005`` folders.

    So are the model zoos of Schürholt et al. 2022, whose checkpoints are called
    ``checkpoints`` beside an ``optimizer``. A line of ``result.json`` belongs to the
    checkpoint whose number is its ``training_iteration``. All checkpoints of a trial have one
    source.
    """

    name: ClassVar[str] = "ray"
    summary: ClassVar[str] = "Ray Tune trials with params.json, result.json and checkpoint folders"

    @classmethod
    def fits(cls, folder: Path, files: list[str]) -> bool:
        """There are checkpoint folders beside a trial's files."""
        trials = {_trial(file) for file in files if checkpoint_number(file) is not None}
        present = set(files)
        return any(
            f"{trial}/{name}" in present or (trial == "." and name in present)
            for trial in trials
            for name in ("params.json", "result.json")
        )

    def listing(self, files: list[str]) -> Listing:
        """One file of every checkpoint folder."""
        folders: dict[str, list[str]] = defaultdict(list)
        for file in files:
            if checkpoint_number(file) is not None:
                folders[PurePosixPath(file).parent.as_posix()].append(file)
        chosen = {self._choose(inside) for inside in folders.values()} - {None}
        return list_files(files, lambda file: file in chosen)

    def read(self, unit: Unit) -> Iterator[FoundNetwork]:
        """Read a checkpoint, and what its trial's files tell of it."""
        trial, number = _trial(unit.file), checkpoint_number(unit.file)
        assert number is not None
        params, results, notes = self._trial_tables(trial)
        activation = self.activation or _activation(params)
        path = self.folder / unit.file
        network = only(read_networks(path, activation=activation), path)
        row: Row = {"trial": trial, "epoch": number, **network.row, **params}
        if number in results:
            row |= results[number]
        elif results:
            notes = (*notes, f"result.json has no line for iteration {number}")
        yield dataclasses.replace(network, row=row, source=trial, notes=(*network.notes, *notes))

    def _choose(self, inside: list[str]) -> str | None:
        """The file of a checkpoint folder that holds the network."""

        def rank(file: str) -> tuple[int, str]:
            path = PurePosixPath(file)
            known = ("checkpoints", "checkpoint", "model", "state_dict")
            return (known.index(path.stem) if path.stem in known else len(known), file)

        likely = [
            file
            for file in inside
            if not any(word in PurePosixPath(file).name.lower() for word in _OTHERS)
            and (
                suffix_of(file) in CHECKPOINT_SUFFIXES
                or (not PurePosixPath(file).suffix
                    and (PurePosixPath(file).name == "checkpoints"
                         or has_magic(self.folder / file)))
            )
        ]  # fmt: skip
        return min(likely, key=rank, default=None)

    def _trial_tables(self, trial: str) -> tuple[Row, dict[int, Row], tuple[str, ...]]:
        """Hyperparameters, results by iteration, and what was wrong with either."""
        if trial not in self._tables:
            if len(self._tables) >= _TRIALS:
                self._tables.clear()
            notes: list[str] = []
            folder = self.folder / trial
            params = _params(folder / "params.json", notes)
            results = _results(folder / "result.json", notes)
            self._tables[trial] = params, results, tuple(notes)
        return self._tables[trial]

    @cached_property
    def _tables(self) -> dict[str, tuple[Row, dict[int, Row], tuple[str, ...]]]:
        return {}

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.folder, self.activation)


def checkpoint_number(file: str) -> int | None:
    """The number of the checkpoint folder that a file lies in.

    >>> checkpoint_number("trial_0/checkpoint_000005/checkpoints"), checkpoint_number("a/b.pt")
    (5, None)
    """
    match = CHECKPOINT.fullmatch(PurePosixPath(file).parent.name)
    return None if match is None else int(match[1])


def metrics_row(values: Mapping[str, Any]) -> Row:
    """The measures of a result, without Ray's own bookkeeping."""
    kept = {k: v for k, v in values.items() if k not in BOOKKEEPING and k != "config"}
    return dict(flat(kept))


def _trial(file: str) -> str:
    return PurePosixPath(file).parent.parent.as_posix()


def _params(path: Path, notes: list[str]) -> Row:
    if not path.is_file():
        return {}
    try:
        value = read_json_value(path)
    except FileError as error:
        notes.append(f"{path.name} could not be read: {error.found}")
        return {}
    return dict(flat(value, "config.")) if isinstance(value, Mapping) else {}


def _results(path: Path, notes: list[str]) -> dict[int, Row]:
    """Read results line by line; a line cut off by a kill is passed over."""
    if not path.is_file():
        notes.append("result.json is missing: no measures")
        return {}
    try:
        lines = read_text(path).splitlines()
    except FileError as error:
        notes.append(f"result.json could not be read: {error.found}")
        return {}
    found: dict[int, Row] = {}
    for number, line in enumerate(lines, start=1):
        try:
            value = json.loads(line) if line.strip() else None
            if value is not None:
                found[int(value["training_iteration"])] = metrics_row(value)
        except (ValueError, TypeError, KeyError, RecursionError):
            notes.append(f"result.json, line {number} is damaged")
    return found


def _activation(params: Mapping[str, Any]) -> str | None:
    """The activation that a trial's parameters name, whatever they call it."""
    for name, value in params.items():
        last = re.split(r"[.:]", name)[-1]
        if last in ("nlin", "activation", "nonlinearity"):
            return activation_name(value)
    return None
