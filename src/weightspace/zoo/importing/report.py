"""What an import did, for people, for JSON and for the zoo's provenance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from weightspace.errors import counted

SHOWN = 20


@dataclass
class ImportReport:
    """What an import found and did. Prints as a summary.

    Args:
        folder: the name of the folder.
        layout: how it was read.
        networks: how many networks are in the zoo.
        specs: of how many architectures.
        splits: how many networks each split has.
        problems: what could not be read and was skipped: ``file`` and ``reason``.
        duplicates: networks with the same weights as an earlier one: ``network``, ``same_as``.
        duplicates_kept: whether those are in the zoo, with a column that says so.
        diverged: how many networks have NaN or infinite weights; a column says which.
        ignored: files of other kinds, by the end of their name.
        notes: what else there is to say.
    """

    folder: str
    layout: str
    networks: int = 0
    specs: int = 0
    splits: dict[str, int] = field(default_factory=dict)
    problems: list[dict[str, str]] = field(default_factory=list)
    duplicates: list[dict[str, str]] = field(default_factory=list)
    duplicates_kept: bool = False
    diverged: int = 0
    ignored: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        networks, specs = counted(self.networks, "network"), counted(self.specs, "architecture")
        yield f"{networks} of {specs} ({self.layout} layout)"
        if self.splits:
            yield "splits: " + ", ".join(f"{name} {count:,}" for name, count in self.splits.items())
        if self.problems:
            yield f"skipped, as they could not be read: {len(self.problems):,}"
            yield from _some(list(_by_reason(self.problems)))
            if any("module" in problem["reason"] for problem in self.problems):
                yield "  (networks whose structure only their module tells: see --module)"
        if self.duplicates:
            what = "marked in the column duplicate_of" if self.duplicates_kept else "left out"
            yield f"with the same weights as an earlier network, {what}: {len(self.duplicates):,}"
            yield from _some([f"{d['network']} as {d['same_as']}" for d in self.duplicates])
        if self.diverged:
            yield f"with NaN or infinite weights, column diverged: {self.diverged:,}"
        if self.ignored:
            kinds = ", ".join(f"{n:,} {kind}" for kind, n in self.ignored.items())
            yield f"files of other kinds, not read: {kinds}"
        yield from self.notes


def _by_reason(problems: list[dict[str, str]]) -> Iterator[str]:
    """One line a reason: a thousand files often fail for the same one."""
    files: dict[str, list[str]] = {}
    for problem in problems:
        files.setdefault(problem["reason"], []).append(problem["file"])
    for reason, names in files.items():
        more = f" and {len(names) - 2:,} more" if len(names) > 2 else ""
        yield f"{', '.join(names[:2])}{more}: {reason}"


def _some(lines: list[str]) -> Iterator[str]:
    yield from (f"  {line}" for line in lines[:SHOWN])
    if len(lines) > SHOWN:
        yield f"  ... and {len(lines) - SHOWN:,} more (all of them in the zoo's provenance)"
