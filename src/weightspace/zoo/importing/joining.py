"""Joining tables to networks by the names that both have: paths, names in a file, stems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath

from weightspace.errors import DataError
from weightspace.zoo.importing.tables import Row, same

Name = tuple[str, str]
"""A network: its file's path in the folder, and its name in the file (empty if alone)."""

SHARED = frozenset({"file", "folder"})
"""How a row may be meant for several networks: all those of a file, or of a folder."""


@dataclass(frozen=True)
class JoinTable:
    """Rows of values for networks.

    Args:
        subject: how errors call the table.
        rows: by the name that the table gives a network.
    """

    subject: str
    rows: Mapping[str, Row]

    @classmethod
    def of(cls, subject: str, rows: Iterable[tuple[str, Row]]) -> JoinTable:
        """Collect rows.

        Raises:
            DataError: a name stands twice, with different values.
        """
        found: dict[str, Row] = {}
        for name, row in rows:
            text = tidy(name)
            before = found.setdefault(text, row)
            if before is not row and (
                before.keys() != row.keys() or not all(same(before[k], row[k]) for k in row)
            ):
                raise DataError(
                    f"{subject}, {name!r}",
                    expected="one row for each name",
                    found=f"two that differ: {_brief(before)} and {_brief(row)}",
                )
        return cls(subject, found)

    def find(self, network: Name) -> tuple[str, str] | None:
        """The row for a network: its name in the table, and how it was found."""
        for how, text in candidates(network):
            if text in self.rows:
                return text, how
        return None if network[1] else self._by_end(network[0])

    def _by_end(self, file: str) -> tuple[str, str] | None:
        """The row whose path has a file's end: either may lie in further folders."""
        parts = file.split("/")
        for first in range(len(parts)):
            end, length = "/".join(parts[first:]), len(parts) - first
            if first and length > 1 and end in self.rows:
                return end, "end"
            if first == 0 or length > 2:
                text = self._ends.get(end)
                if text:
                    return text, "end"
        return None

    @cached_property
    def _ends(self) -> dict[str, str]:
        """The names of the table without their first folders; empty where several have the end."""
        ends: dict[str, str] = {}
        for text in self.rows:
            parts = text.split("/")
            for first in range(1, len(parts)):
                end = "/".join(parts[first:])
                ends[end] = "" if end in ends else text
        return ends


@dataclass
class JoinReport:
    """How a table fitted the networks.

    Args:
        subject: the table.
        joined: how many networks have a row.
        missing: the networks without one.
        extra: the names in the table that no network has.
    """

    subject: str
    joined: int = 0
    missing: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)

    def lines(self, what: str) -> Iterator[str]:
        """Say what did not fit, for people."""
        if self.missing:
            yield (
                f"{what}: {len(self.missing):,} of {self.joined + len(self.missing):,} networks "
                f"have none in {self.subject}: {_some(self.missing)}"
            )
        if self.extra:
            yield (
                f"{what}: {len(self.extra):,} rows of {self.subject} belong to no network that was "
                f"read: {_some(self.extra)}"
            )


def join(table: JoinTable, networks: Sequence[Name]) -> tuple[list[Row | None], JoinReport]:
    """Find each network's row.

    A row is meant for the network whose path it names, with or without the file's ending;
    else for the one of that name within a file; else for all networks below the folder of
    that path; else for the one file of that name or stem. Paths of another machine fit by
    their ends.

    Returns:
        A row for each network, None where there is none, and what did not fit.

    Raises:
        DataError: a name in the table could mean several files, or fits nothing at all.
    """
    found = [table.find(network) for network in networks]
    users: dict[str, dict[Name, None]] = {}
    for network, hit in zip(networks, found, strict=True):
        if hit is not None and hit[1] not in SHARED:
            users.setdefault(hit[0], {})[network] = None
    for text, meant in users.items():
        if len(meant) > 1:
            raise DataError(
                f"{table.subject}, {text!r}",
                expected="a name that means one network",
                found=f"{len(meant)} that it could mean: {_some([show(n) for n in meant])}",
                hint="Name the networks by their paths in the folder.",
            )
    used = {hit[0] for hit in found if hit is not None}
    report = JoinReport(table.subject, sum(hit is not None for hit in found))
    report.missing = [show(n) for n, hit in zip(networks, found, strict=True) if hit is None]
    report.extra = [text for text in table.rows if text not in used]
    if networks and not used:
        raise DataError(
            table.subject,
            expected=f"names of networks, such as {_some([show(n) for n in networks[:3]])}",
            found=f"{len(table.rows)} rows, such as {_some(report.extra)}, which fit none",
            hint="Rows are joined by relative path, by name within a file, by file name or stem.",
        )
    return [None if hit is None else table.rows[hit[0]] for hit in found], report


def candidates(network: Name) -> Iterator[tuple[str, str]]:
    """The names that a network goes by, the strongest first, with what each is.

    >>> [text for _, text in candidates(("runs/a/model.pt", ""))]
    ['runs/a/model.pt', 'runs/a/model', 'runs/a', 'runs', 'a', 'model.pt', 'model']
    """
    file, key = network
    path = PurePosixPath(file)
    bare = path.with_suffix("").as_posix()
    if key:
        yield "key", f"{file}/{key}"
        yield "key", f"{bare}/{key}"
        yield "key", key
        yield "file", file
        return
    yield "file", file
    yield "file", bare
    if len(path.parts) > 1:
        yield "folder", path.parent.as_posix()
    for folder in [p for p in path.parents if p.name][1:]:
        yield "folder", folder.as_posix()
    if len(path.parts) > 2:
        yield "folder name", path.parent.name
    yield "name", path.name
    yield "name", path.stem


def show(network: Name) -> str:
    """A network's name for people."""
    return f"{network[0]}: {network[1]}" if network[1] else network[0]


def tidy(name: object) -> str:
    """A name in the form that paths have here."""
    text = str(name).strip().replace("\\", "/")
    return text.removeprefix("./").strip("/")


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def _brief(row: Row) -> str:
    text = str(row)
    return text if len(text) < 80 else text[:77] + "..."
