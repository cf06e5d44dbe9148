"""Ranking checkpoint files, folders and zoos with a ranking that was fitted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from weightspace.errors import DataError, FileError, WeightspaceError, require_between
from weightspace.find import Folder
from weightspace.graph import MixedGraph, NeuralGraph
from weightspace.rank.conformal import COVERAGES
from weightspace.rank.features import FEATURES, features_of
from weightspace.rank.ranking import Ranking
from weightspace.tasks.batches import read_networks
from weightspace.zoo import Zoo
from weightspace.zoo.store_manifest import MANIFEST

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[np.float64]
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
    paths: Sequence[str | Path],
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
        ModelError: the coverage is out of range.
    """
    if not paths:
        raise DataError("files", expected="checkpoint files of networks", found="none")
    if coverage is not None:
        require_between("coverage", coverage, *COVERAGES)
    rows: list[dict[str, Any]] = []
    problems: list[WeightspaceError] = []
    for path in map(Path, paths):
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
    """A row for each network; those that cannot be read become problems."""
    described: list[tuple[str, NeuralGraph, Array]] = []
    for name, graph in named:
        try:
            features = features_of(graph)
            if not np.isfinite(features).all():
                raise FileError(name, expected="finite weights", found="NaN or infinity")
            described.append((name, graph, features))
        except WeightspaceError as error:
            problems.append(_named(error, name))
    if not described:
        return []
    strange = ranking.familiarity.strangeness(np.concatenate([f for *_, f in described]))
    alike = strange <= ranking.familiarity.limit
    known = [one for one, fits in zip(described, alike, strict=True) if fits]
    said = {one[0]: row for one, row in zip(known, _known(ranking, known, coverage), strict=True)}
    rows = []
    for (name, _, features), distance in zip(described, strange.tolist(), strict=True):
        row = said.get(name) or _stranger(ranking, features)
        if isinstance(row, WeightspaceError):
            problems.append(_named(row, name))
        else:
            rows.append({"file": name, "rank": None, **row, "strangeness": distance})
    return rows


def _known(
    ranking: Ranking, known: Sequence[tuple[str, NeuralGraph, Array]], coverage: float | None
) -> list[dict[str, Any] | WeightspaceError]:
    """What is said of networks like those that were seen, all at once where that can be."""
    if not known:
        return []
    graphs = MixedGraph.of([graph for _, graph, _ in known]) if ranking.reads_weights else None
    features = np.concatenate([row for *_, row in known])
    try:
        said = ranking.predict(features, graphs, coverage=coverage)
    except WeightspaceError as error:
        if len(known) == 1:
            return [error]
        return [row for one in known for row in _known(ranking, [one], coverage)]
    return [
        {
            "value": float(value),
            "low": _end(low),
            "high": _end(high),
            "unlike": False,
            "differs_in": [],
        }
        for value, low, high in zip(said.values, said.low, said.high, strict=True)
    ]


def _stranger(ranking: Ranking, features: Array) -> dict[str, Any]:
    return {
        "value": None,
        "low": None,
        "high": None,
        "unlike": True,
        "differs_in": ranking.familiarity.differences(features[0], FEATURES),
    }


def _named(error: WeightspaceError, name: str) -> FileError:
    return FileError(name, expected=error.expected, found=error.found, hint=error.hint)


def _end(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
