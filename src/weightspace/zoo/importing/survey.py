"""The survey: every file is read once, to learn which networks there are before any is written.

Its results are kept in a folder beside the zoo, a file for each block of units, so that an
interrupted survey goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from torch import Tensor

from weightspace.errors import FileError, WeightspaceError, reason_of
from weightspace.graph import GraphSpec
from weightspace.zoo.importing.blueprints import BareBlueprint, SpecCache, activation_name
from weightspace.zoo.importing.found import Blueprint, FoundNetwork, Unit
from weightspace.zoo.importing.joining import JoinTable
from weightspace.zoo.importing.labels import read_labels
from weightspace.zoo.importing.layout import Layout
from weightspace.zoo.importing.listing import readable
from weightspace.zoo.importing.states import digest_of, is_finite
from weightspace.zoo.shards import spec_tensors
from weightspace.zoo.store_manifest import spec_as_json

BLOCK = 128
"""Units that are read and noted together."""


@dataclass(frozen=True, slots=True)
class SurveyTask:
    """A block of units to look at.

    Args:
        number: of the block.
        first: the number of its first unit.
        layout: how to read them.
        units: what to read.
        labels: a file of labels, which may tell activations.
        specs: of networks that are known beforehand.
    """

    number: int
    first: int
    layout: Layout
    units: tuple[Unit, ...]
    labels: Path | None = None
    specs: tuple[GraphSpec, ...] = ()


@dataclass(slots=True)
class Entry:
    """A network as the survey found it.

    Args:
        unit: the number of its unit.
        file: its file.
        key: its name in the file.
        spec: the fingerprint of its spec.
        sha256: of its weights.
        finite: whether no weight is NaN or infinite.
        row: what the layout knows of it.
        source: what it shares with near copies of it.
        notes: what was noticed.
    """

    unit: int
    file: str
    key: str
    spec: str
    sha256: str
    finite: bool
    row: dict[str, Any]
    source: str
    notes: tuple[str, ...] = ()


@dataclass
class Survey:
    """What there is in a folder.

    Args:
        entries: the networks, in order.
        problems: what could not be read: ``file`` and ``reason``.
        specs: by fingerprint, in order of appearance; as plain dictionaries.
    """

    entries: list[Entry] = field(default_factory=list)
    problems: list[dict[str, str]] = field(default_factory=list)
    specs: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, block: Mapping[str, Any]) -> None:
        """Add the results of a block."""
        for entry in block["entries"]:
            # The same few texts stand in thousands of rows.
            row = {sys.intern(k): sys.intern(v) if isinstance(v, str) else v
                   for k, v in entry["row"].items()}  # fmt: skip
            self.entries.append(Entry(**{**entry, "row": row, "spec": sys.intern(entry["spec"])}))
        self.problems += block["problems"]
        for fingerprint, spec in block["specs"].items():
            self.specs.setdefault(fingerprint, spec)


def survey_block(task: SurveyTask) -> tuple[int, dict[str, Any]]:
    """Look at a block of units; what cannot be read is noted, never raised."""
    entries: list[Entry] = []
    problems: list[dict[str, str]] = []
    specs: dict[str, dict[str, Any]] = {}
    labels = None if task.labels is None else _labels(task.labels)
    for place, unit in enumerate(task.units):
        number = task.first + place
        for network, error in _readings(task.layout, unit):
            try:
                if error is not None:
                    raise error
                assert network is not None
                spec = known_spec(network, task.specs) or spec_of(
                    network, unit, task.layout, labels
                )
                fingerprint = spec.fingerprint
                if fingerprint not in specs:
                    specs[fingerprint] = _spec_json(spec)
                entries.append(_entry(number, unit, network, spec))
            except WeightspaceError as failure:
                problems.append(_problem(task.layout, unit, network, failure))
    block = {"entries": [asdict(e) for e in entries], "problems": problems, "specs": specs}
    # As it will be read again, NaN included: measures of diverged networks are often that.
    return task.number, json.loads(json.dumps(block))


def known_spec(network: FoundNetwork, specs: Sequence[GraphSpec]) -> GraphSpec | None:
    """The first of some specs that has the tensors of a network, by name, shape and type."""
    for spec in specs:
        tensors = spec_tensors(spec)
        if len(tensors) == len(network.state) and all(
            (found := network.state.get(p.name)) is not None
            and tuple(found.shape) == tuple(p.shape)
            and str(found.dtype) == f"torch.{p.dtype}"
            for p in tensors
        ):
            return spec
    return None


def spec_of(
    network: FoundNetwork, unit: Unit, layout: Layout, labels: JoinTable | None
) -> GraphSpec:
    """The spec of a network, from the cache of this process.

    Raises:
        WeightspaceError: the network cannot be read as a graph, or has other types.
    """
    blueprint: Blueprint = network.blueprint
    told = None if labels is None else labels.find((unit.file, network.key))
    row = {**network.row, **({} if told is None or labels is None else labels.rows[told[0]])}
    if isinstance(blueprint, BareBlueprint) and blueprint.activation is None:
        named = activation_name(row.get("activation"))
        if named is not None:
            blueprint = BareBlueprint(blueprint.tensors, named, blueprint.order, blueprint.output)
    subject = layout.folder / unit.file
    spec = _cache().get(blueprint, subject)
    for parameter in spec_tensors(spec):
        tensor = network.state.get(parameter.name)
        if tensor is None or str(tensor.dtype) != f"torch.{parameter.dtype}":
            raise FileError(
                f"{subject}, tensor {parameter.name!r}",
                expected=parameter.dtype,
                found="none" if tensor is None else str(tensor.dtype).removeprefix("torch."),
            )
    return spec


def units_digest(folder: Path, units: Iterable[Unit], *, times: bool) -> str:
    """A digest of which files there are, their sizes and, if asked, when they were written."""
    digest = hashlib.sha256()
    for unit in units:
        try:
            status = (folder / unit.file).stat()
            size, moment = status.st_size, status.st_mtime_ns
        except OSError:
            size, moment = -1, -1
        line = f"{unit.file}\0{unit.rows}\0{size}\0{moment if times else 0}\n"
        digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def read_unit(layout: Layout, unit: Unit) -> Iterator[FoundNetwork]:
    """Read a unit; whatever goes wrong in it becomes a clear error.

    Raises:
        WeightspaceError: it cannot be read.
    """
    if readable(unit.file) != unit.file:
        raise FileError(
            readable(unit.file),
            expected="a name in UTF-8",
            found="bytes that are no text",
            hint="Rename the file.",
        )
    try:
        yield from layout.read(unit)
    except WeightspaceError:
        raise
    except (MemoryError, OSError, RecursionError) as error:
        raise FileError(
            layout.folder / unit.file,
            expected="a readable file",
            found=reason_of(error) or type(error).__name__,
        ) from error


def _readings(
    layout: Layout, unit: Unit
) -> Iterator[tuple[FoundNetwork | None, WeightspaceError | None]]:
    try:
        for network in read_unit(layout, unit):
            yield network, None
    except WeightspaceError as error:
        yield None, error


def _entry(number: int, unit: Unit, network: FoundNetwork, spec: GraphSpec) -> Entry:
    state: Mapping[str, Tensor] = network.state
    return Entry(
        number,
        unit.file,
        network.key,
        spec.fingerprint,
        digest_of(spec, state),
        is_finite(state),
        dict(network.row),
        network.source or (f"{unit.file}/{network.key}" if network.key else unit.file),
        network.notes,
    )


def _problem(
    layout: Layout, unit: Unit, network: FoundNetwork | None, error: WeightspaceError
) -> dict[str, str]:
    name = readable(unit.file)
    if network is not None and network.key:
        name = f"{name}: {network.key}"
    text = str(error).replace(f"{layout.folder}/", "")
    return {"file": name, "reason": text.removeprefix(f"{unit.file}: ")}


@lru_cache(1)
def _cache() -> SpecCache:
    return SpecCache()


@lru_cache(2)
def _labels(path: Path) -> JoinTable:
    return read_labels(path)


@lru_cache(64)
def _spec_json(spec: GraphSpec) -> dict[str, Any]:
    return spec_as_json(spec)
