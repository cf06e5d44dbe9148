"""The table of a sweep's runs: one Parquet file, always whole, that a sweep goes on from."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from weightspace.errors import FileError, reason_of

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]

_SETTINGS = b"weightspace.sweep"
_SHARE = 20  # writing may take a twentieth of the time
_COLUMNS = {
    "network": "string",
    "graph": "string",
    "kind": "string",
    "control_of": "string",
    "clustering": "double",
    "path_length": "double",
    "degree": "double",
    "density": "double",
    "nodes": "int64",
    "fingerprint": "string",
    "seed": "int64",
    "epoch": "int64",
    "error": "double",
    "validation_error": "double",
    "loss": "double",
    "epochs": "int64",
    "stop": "int64",
    "match": "string",
    "asked": "int64",
    "got": "int64",
    "flops": "int64",
    "parameters": "int64",
    "width": "int64",
    "seconds": "double",
    "data": "string",
}


class RunKey(NamedTuple):
    """Which run a row is of."""

    network: str
    kind: str
    graph: str
    seed: int


class RunTable:
    """The runs that a sweep has done, in memory and in a file.

    A run's rows come together. The file is replaced as a whole: whatever ends the process, it
    holds whole runs, each once. It may lag behind by twenty times as long as writing takes.

    Args:
        path: of the file.
        settings: all that decides a run's result beside its row; a file of others is refused.
            Networks may differ.

    Raises:
        FileError: the file is of something else, or of another sweep.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path = path
        self._settings = settings
        self._rows: dict[RunKey, list[Row]] = {}
        self._written, self._took, self._dirty = time.monotonic(), 0.0, False
        if path.exists():
            self._read()

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> list[Row]:
        """All rows, in the order of their runs, whichever came first."""
        return [row for key in sorted(self._rows) for row in self._rows[key]]

    def run(self, key: RunKey) -> list[Row]:
        """The rows of a run, by epoch; none if it is not there."""
        return self._rows.get(key, [])

    def add(self, rows: list[Row]) -> None:
        """Add a run, or what it has become after more epochs; write now and then."""
        self._rows[run_key(rows[0])] = sorted(rows, key=lambda row: row["epoch"])
        self._dirty = True
        if time.monotonic() - self._written >= _SHARE * self._took:
            self.write()

    def write(self) -> None:
        """Write the file, all or nothing.

        Raises:
            FileError: it cannot be written.
        """
        if not self._dirty:
            return
        start = time.monotonic()
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._write(temporary)
            temporary.replace(self.path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise FileError(
                self.path, expected="a place that can be written", found=reason_of(error)
            ) from error
        self._written, self._dirty = time.monotonic(), False
        self._took = self._written - start

    def _write(self, path: Path) -> None:
        import pyarrow as pa  # noqa: PLC0415 (slow to import)
        import pyarrow.parquet as pq  # noqa: PLC0415

        content = {_SETTINGS: json.dumps(self._settings, sort_keys=True).encode()}
        table = pa.Table.from_pylist(self.rows, _schema()).replace_schema_metadata(content)
        with path.open("wb") as stream:
            pq.write_table(table, stream)
            stream.flush()
            os.fsync(stream.fileno())

    def _read(self) -> None:
        import pyarrow as pa  # noqa: PLC0415 (slow to import)
        import pyarrow.parquet as pq  # noqa: PLC0415

        try:
            table = pq.ParquetFile(self.path).read()
            found = json.loads((table.schema.metadata or {})[_SETTINGS])
            rows = table.select([*_COLUMNS]).to_pylist()
        except (pa.ArrowException, OSError, KeyError, ValueError) as error:
            raise FileError(
                self.path,
                expected="the runs of a sweep, or nothing",
                found=(str(error).splitlines() or [""])[0][:200] or type(error).__name__,
                hint="Choose another file.",
            ) from error
        self._require_same(found)
        for row in rows:
            self._rows.setdefault(run_key(row), []).append(row)

    def _require_same(self, found: dict[str, Any]) -> None:
        networks = {**found.get("networks", {}), **self._settings["networks"]}
        pairs = {key: (found.get(key), own) for key, own in self._settings.items()}
        pairs["networks"] = (
            {name: found.get("networks", {}).get(name, own) for name, own in networks.items()},
            networks,
        )
        other = [key for key, (old, new) in pairs.items() if old != new]
        if other:
            raise FileError(
                self.path,
                expected=", ".join(f"{key} {_short(pairs[key][1])}" for key in other),
                found=", ".join(_short(pairs[key][0]) for key in other),
                hint="The file holds another sweep; choose another one.",
            )
        self._settings = self._settings | {"networks": networks}


@contextlib.contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Let no other process write a table meanwhile, where the system can say so.

    Raises:
        FileError: another one does.
    """
    try:
        import fcntl  # noqa: PLC0415 (only some systems have it)
    except ImportError:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_name(f".{path.name}.lock")
    with lock.open("a") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if lock.stat().st_ino != os.fstat(stream.fileno()).st_ino:
                raise OSError("its writer has just ended")
        except OSError as error:
            raise FileError(
                path,
                expected="a file that no other sweep is writing",
                found="one at work",
                hint="Wait until it ends, or choose another file.",
            ) from error
        for left in path.parent.glob(f".{glob.escape(path.name)}.[0-9]*"):
            left.unlink(missing_ok=True)  # of a writer that was killed
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def finished(rows: Iterable[Row], stop: int) -> bool:
    """Whether a run has had so many epochs."""
    return any(row["stop"] >= stop for row in rows)


def run_key(row: Row) -> RunKey:
    """Which run a row is of."""
    return RunKey(row["network"], row["kind"], row["graph"], row["seed"])


def _schema() -> pa.Schema:
    import pyarrow as pa  # noqa: PLC0415 (slow to import)

    return pa.schema([(name, getattr(pa, _TYPES[kind])()) for name, kind in _COLUMNS.items()])


_TYPES = {"string": "string", "double": "float64", "int64": "int64"}


def _short(value: Any) -> str:
    return json.dumps(value, sort_keys=True)[:200]
