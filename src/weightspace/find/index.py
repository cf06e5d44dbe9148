"""An index of the networks of a folder, kept on disk and brought up to date."""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from weightspace.errors import FileError, WeightspaceError
from weightspace.find.descriptors import CHANNELS
from weightspace.find.kinship import Features
from weightspace.find.neighbours import Neighbours, make_neighbours
from weightspace.find.network import Network
from weightspace.find.reading import Folder, Problem
from weightspace.find.rounding import Rounding
from weightspace.find.sketching import WIDTH
from weightspace.zoo.importing.found import Unit
from weightspace.zoo.importing.listing import readable
from weightspace.zoo.store_files import write_file

logger = logging.getLogger(__name__)

NAME = ".weightspace-index.parquet"
"""The index of a folder lies in it; hidden files are never read as networks."""
FORMAT = 1
SAVED_EVERY = 60.0
"""Seconds of reading after which the index is saved: what a kill can lose."""
OPEN_FILES = 16
"""Files whose networks are kept in memory."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A network in an index.

    Args:
        number: stands for this network with these weights for ever.
        file: its file, by the path in the folder.
        key: its name in the file.
        size: the file's length in bytes.
        moment: when the file was written, in nanoseconds.
        sha256: of its values.
        structure: equal for networks of one architecture.
        known: whether its structure is known, not its shapes alone.
        values: how many values it has.
        features: what its weights tell by themselves.
    """

    number: int
    file: str
    key: str
    size: int
    moment: int
    sha256: str
    structure: str
    known: bool
    values: int
    features: Features

    @property
    def name(self) -> str:
        """What people call it."""
        return f"{self.file}:{self.key}" if self.key else self.file


@dataclass(frozen=True, slots=True)
class Changes:
    """What bringing an index up to date found.

    Args:
        added: files that were not in it.
        changed: files that were written since.
        removed: files that are gone.
        kept: files that are as they were.
    """

    added: int = 0
    changed: int = 0
    removed: int = 0
    kept: int = 0

    def __str__(self) -> str:
        return (
            f"files: {self.added} new, {self.changed} changed, {self.removed} removed, "
            f"{self.kept} as before"
        )


@dataclass
class _Seen:
    """What is known of a file that was read."""

    size: int
    moment: int
    entries: list[Entry] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


class Index:
    """The networks of a folder: descriptors and digests, and the networks when asked for.

    Args:
        folder: where they are read.
        entries: the networks.
        problems: what could not be read.
        changes: since the index was last brought up to date.
        path: the index's file; None if it is only in memory.
    """

    def __init__(
        self,
        folder: Folder,
        entries: Sequence[Entry],
        problems: Sequence[Problem],
        changes: Changes,
        path: Path | None,
    ) -> None:
        self.folder, self.entries, self.problems = folder, tuple(entries), tuple(problems)
        self.changes, self.path = changes, path
        self._read = lru_cache(maxsize=OPEN_FILES)(self._read_file)

    @classmethod
    def of(
        cls,
        folder: Folder,
        *,
        path: Path | None = None,
        track: Callable[[Iterable[Unit]], Iterable[Unit]] = iter,
    ) -> Index:
        """Read an index from disk and bring it up to date; make it if there is none.

        Files of the same length and time of writing as before are not read again, nor are those
        that were read before an interruption. Where the folder cannot be written, the index is
        made in memory; so it is for a file alone, which is looked up in the index of its folder,
        but never takes its place.

        Args:
            folder: the networks.
            path: the index's file; one in the folder if not given.
            track: is given the files that are read one by one, to show progress.
        """
        place = folder.path / NAME if path is None else path
        before = _load(place, folder.signature)
        number = 1 + max((e.number for s in before.values() for e in s.entries), default=-1)
        now: dict[str, _Seen] = {}
        waiting = []
        for unit in folder.units():
            status = _status(folder.path / unit.file)
            name = readable(unit.file)  # bytes that are no text cannot be kept
            old = before.get(name)
            if old is not None and status == (old.size, old.moment):
                now[name] = old
            else:
                now[name] = _Seen(*status)
                waiting.append(unit)
        keep = folder.is_whole or path is not None
        saving = partial(_save, place, folder.signature, now) if keep else None
        _read(folder, track(waiting), now, number, saving)
        changed = sum(readable(unit.file) in before for unit in waiting)
        changes = Changes(
            added=len(waiting) - changed,
            changed=changed,
            removed=len(before.keys() - now.keys()) if folder.is_whole else 0,
            kept=len(now) - len(waiting),
        )
        if keep and (waiting or changes.removed or not place.is_file()):
            place = _save(place, folder.signature, now) if now else place
        entries = [entry for seen in now.values() for entry in seen.entries]
        problems = [problem for seen in now.values() for problem in seen.problems]
        kept = place if keep and place.is_file() else None
        return cls(folder, entries, problems, changes, kept)

    def __len__(self) -> int:
        return len(self.entries)

    @cached_property
    def vectors(self) -> Float[np.ndarray, "networks channels"]:
        """The descriptors of all networks."""
        rows = [entry.features.descriptor for entry in self.entries]
        return np.array(rows, dtype=np.float32).reshape(len(rows), len(CHANNELS))

    @cached_property
    def sketches(self) -> Float[np.ndarray, "networks width"]:
        """The sketches of all networks."""
        rows = [entry.features.sketch for entry in self.entries]
        return np.array(rows, dtype=np.float32).reshape(len(rows), WIDTH)

    @cached_property
    def _neighbours(self) -> Neighbours:
        numbers = np.array([entry.number for entry in self.entries], dtype=np.int64)
        beside = None if self.path is None else self.path.with_suffix(".usearch")
        return make_neighbours(beside, numbers, self.vectors)

    def nearest(
        self, descriptor: Float[np.ndarray, " channels"], count: int
    ) -> list[tuple[Entry, float]]:
        """The networks with the nearest descriptors, and how far these are."""
        by_number = {entry.number: entry for entry in self.entries}
        numbers, gaps = self._neighbours.nearest(descriptor, min(count, len(self)))
        return [(by_number[int(n)], float(g)) for n, g in zip(numbers, gaps, strict=True)]

    def network(self, entry: Entry) -> Network:
        """Read a network.

        Raises:
            FileError: its file has changed since.
        """
        found = self._read(entry.file).get(entry.key)
        if found is None or found.sha256 != entry.sha256:
            raise FileError(
                self.folder.path / entry.file,
                expected="the network that was indexed a moment ago",
                found="another file" if found is not None else "none",
                hint="Run the command again.",
            )
        return found

    def _read_file(self, file: str) -> dict[str, Network]:
        return {network.key: network for network in self.folder.read(Unit(file))[0]}


def _read(
    folder: Folder,
    units: Iterable[Unit],
    now: dict[str, _Seen],
    number: int,
    saving: Callable[[], object] | None,
) -> None:
    """Read files into what is known of them, which is saved now and then and if interrupted."""
    saved = time.monotonic()
    try:
        for unit in units:
            networks, problems = folder.read(unit)
            seen = now[readable(unit.file)]
            # Both at once, or neither: files without any are read again.
            entries = [_entry(one, number + more, seen) for more, one in enumerate(networks)]
            seen.entries, seen.problems = entries, problems
            number += len(entries)
            if saving is not None and time.monotonic() - saved > SAVED_EVERY:
                saving()
                saved = time.monotonic()
    except BaseException:
        if saving is not None:
            saving()
        raise


def _status(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return -1, -1  # It is reported when it is read.
    return status.st_size, status.st_mtime_ns


def _entry(network: Network, number: int, seen: _Seen) -> Entry:
    return Entry(
        number,
        network.file,
        network.key,
        seen.size,
        seen.moment,
        network.sha256,
        network.structure,
        network.spec is not None,
        sum(tensor.numel() for tensor in network.state.values()),
        Features.of(network),
    )


def _save(path: Path, signature: str, seen: dict[str, _Seen]) -> Path:
    """Write the index, a row for each network and each problem; warn if that is not possible."""
    import pyarrow as pa  # noqa: PLC0415 (slow to import)
    import pyarrow.parquet as pq  # noqa: PLC0415

    rows: list[dict[str, Any]] = []
    for file, found in seen.items():
        own = {"file": file, "size": found.size, "moment": found.moment}
        rows += [{**own, "problem": p.reason, "name": p.file} for p in found.problems]
        rows += [{**own, "name": e.name, **_row(e)} for e in found.entries]
    meta = {"weightspace": json.dumps({"format": FORMAT, "of": signature, "channels": CHANNELS})}
    table = pa.Table.from_pylist(rows, schema=_schema(pa, meta))
    sink = io.BytesIO()
    pq.write_table(table, sink)
    try:
        write_file(path, sink.getvalue())
    except FileError as error:
        logger.warning("the index is not kept: %s", error)
    return path


def _schema(pa: Any, metadata: dict[str, str]) -> Any:
    text, whole, real = pa.string(), pa.int64(), pa.float64()
    return pa.schema(
        [
            ("name", text), ("file", text), ("key", text), ("size", whole), ("moment", whole),
            ("problem", text), ("number", whole), ("sha256", text), ("structure", text),
            ("known", pa.bool_()), ("values", whole), ("rounded_to", text),
            ("rounding_error", real), ("zeros", real), ("sketch", pa.list_(pa.float32())),
            ("descriptor", pa.list_(pa.float32())),
        ],
        metadata=metadata,
    )  # fmt: skip


def _row(entry: Entry) -> dict[str, Any]:
    features = entry.features
    return {
        "key": entry.key,
        "number": entry.number,
        "sha256": entry.sha256,
        "structure": entry.structure,
        "known": entry.known,
        "values": entry.values,
        "rounded_to": features.rounding.to,
        "rounding_error": features.rounding.error,
        "zeros": features.zeros,
        "sketch": features.sketch,
        "descriptor": features.descriptor,
    }


def _load(path: Path, signature: str) -> dict[str, _Seen]:
    """What an index holds by file; nothing if it is missing, damaged, or of other options."""
    import pyarrow as pa  # noqa: PLC0415 (slow to import)
    import pyarrow.parquet as pq  # noqa: PLC0415

    if not path.is_file():
        return {}
    try:
        table = pq.read_table(path)
        meta = json.loads((table.schema.metadata or {}).get(b"weightspace", b"null"))
        if meta != {"format": FORMAT, "of": signature, "channels": list(CHANNELS)}:
            return {}
        seen: dict[str, _Seen] = {}
        for row in table.to_pylist():
            found = seen.setdefault(row["file"], _Seen(row["size"], row["moment"]))
            if row["problem"] is not None:
                found.problems.append(Problem(row["name"], row["problem"]))
            else:
                found.entries.append(_entry_of(row))
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, WeightspaceError) as error:
        logger.warning("%s cannot be read and is made anew: %s", path, error)
        return {}
    return seen


def _entry_of(row: dict[str, Any]) -> Entry:
    features = Features(
        np.array(row["descriptor"], dtype=np.float32),
        Rounding(row["rounded_to"], row["rounding_error"]),
        row["zeros"],
        np.array(row["sketch"], dtype=np.float32),
    )
    plain = ("number", "file", "key", "size", "moment", "sha256", "structure", "known", "values")
    return Entry(**{name: row[name] for name in plain}, features=features)
