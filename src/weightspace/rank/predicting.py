"""Ranking checkpoint files, folders and zoos with a ranking that was fitted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weightspace.errors import DataError, FileError, WeightspaceError
from weightspace.find import Folder
from weightspace.graph import MixedGraph, NeuralGraph
from weightspace.rank.features import FEATURES, features_of
from weightspace.rank.ranking import Ranking
from weightspace.tasks.batches import read_networks
from weightspace.zoo import Zoo
from weightspace.zoo.store_manifest import MANIFEST

if TYPE_CHECKING:
    import pandas as pd

_AT_ONCE = 64


@dataclass(frozen=True, eq=False)
class Ranked:
    """Networks in the order of their predicted numbers, the highest first.

    Args:
        rows: for each: ``file``, ``rank``, ``value``, ``low`` and ``high`` of its interval (None
            where it has no end), ``unlike`` and ``strangeness``, ``differs_in``. A network that
            is unlike anything seen has no value and no rank, and stands at the end.
        problems: what could not be read or ranked.
    """

    rows: list[dict[str, Any]]
    problems: list[WeightspaceError]

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a data frame.

        Raises:
            DataError: pandas is not installed.
        """
        from weightspace.zoo.frames import data_frame  # noqa: PLC0415

        return data_frame(self.rows)


def rank_networks(
    ranking: Ranking,
    paths: Sequence[Path],
    *,
    activation: str | None = None,
    coverage: float | None = None,
) -> Ranked:
    """Rank the networks of files, folders and zoos. Nothing in the files is executed.

    Args:
        ranking: what to rank by.
        paths: checkpoint files, folders of them, or zoos.
        activation: of all hidden layers, where the files do not tell.
        coverage: of the intervals; the ranking's own if not given.

    Raises:
        DataError: there are no paths.
    """
    if not paths:
        raise DataError("files", expected="checkpoint files of networks", found="none")
    rows: list[dict[str, Any]] = []
    problems: list[WeightspaceError] = []
    for path in paths:
        named: list[tuple[str, NeuralGraph]] = []
        for item in _networks(path, activation):
            if isinstance(item, WeightspaceError):
                problems.append(item)
                continue
            named.append(item)
            if len(named) == _AT_ONCE:
                rows += _say(ranking, named, coverage, problems)
                named = []
        rows += _say(ranking, named, coverage, problems)
    known = sorted((r for r in rows if not r["unlike"]), key=lambda row: -row["value"])
    strange = sorted((r for r in rows if r["unlike"]), key=lambda row: -row["strangeness"])
    for place, row in enumerate(known):
        row["rank"] = place + 1
    return Ranked([*known, *strange], problems)


def _networks(
    path: Path, activation: str | None
) -> Iterator[tuple[str, NeuralGraph] | WeightspaceError]:
    """The networks of a path by name, and what cannot be read."""
    try:
        if (path / MANIFEST).is_file():
            yield from _of_zoo(path)
            return
        folder = Folder(
            path, activation=activation, layout="auto" if path.is_dir() else "checkpoints"
        )
        units = folder.units()
        if not units:
            raise FileError(path, expected="checkpoints", found="no file that may be one")
    except WeightspaceError as error:
        yield error
        return
    for unit in units:
        networks, problems = folder.read(unit)
        for problem in problems:
            yield FileError(folder.path / problem.file, expected="a network", found=problem.reason)
        for network in networks:
            name = str(folder.path / network.name)
            if network.spec is None:
                yield FileError(
                    name,
                    expected="a structure that names and shapes tell",
                    found="another one",
                    hint="Import it with `weightspace zoo import --module`, and give the zoo.",
                )
                continue
            try:
                yield name, NeuralGraph.from_states(network.spec, [network.state])
            except WeightspaceError as error:
                yield error


def _of_zoo(path: Path) -> Iterator[tuple[str, NeuralGraph]]:
    zoo = Zoo.open(path)
    for start in range(0, len(zoo), _AT_ONCE):
        chosen = range(start, min(start + _AT_ONCE, len(zoo)))
        mixed = MixedGraph.of(read_networks(zoo, list(chosen)))
        for row, network in zip(chosen, mixed.networks(), strict=True):
            yield f"{path}#{row}", network


def _say(
    ranking: Ranking,
    named: Sequence[tuple[str, NeuralGraph]],
    coverage: float | None,
    problems: list[WeightspaceError],
) -> list[dict[str, Any]]:
    """A row for each network."""
    rows = []
    for name, graph in named:
        try:
            row = features_of(graph)
            if not np.isfinite(row).all():
                raise FileError(name, expected="finite weights", found="NaN or infinity")
            rows.append({"file": name, **_row(ranking, row, graph, coverage)})
        except WeightspaceError as error:
            problems.append(
                FileError(name, expected=error.expected, found=error.found, hint=error.hint)
            )
    return rows


def _row(
    ranking: Ranking, features: np.ndarray[Any, Any], graph: NeuralGraph, coverage: float | None
) -> dict[str, Any]:
    strangeness = float(ranking.familiarity.strangeness(features)[0])
    if strangeness > ranking.familiarity.limit:
        return {
            "rank": None,
            "value": None,
            "low": None,
            "high": None,
            "unlike": True,
            "strangeness": strangeness,
            "differs_in": ranking.familiarity.differences(features[0], FEATURES),
        }
    networks = MixedGraph.of(graph) if ranking.reads_weights else None
    said = ranking.predict(features, networks, coverage=coverage)
    return {
        "rank": None,
        "value": float(said.values[0]),
        "low": _end(said.low[0]),
        "high": _end(said.high[0]),
        "unlike": False,
        "strangeness": strangeness,
        "differs_in": [],
    }


def _end(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
