"""Deciding which networks are written, and with which rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from weightspace.zoo.importing.joining import JoinTable, join, show
from weightspace.zoo.importing.options import Duplicates
from weightspace.zoo.importing.report import ImportReport
from weightspace.zoo.importing.survey import Entry, Survey
from weightspace.zoo.importing.tables import Row, same, settle
from weightspace.zoo.splits import crossing_groups
from weightspace.zoo.store_rows import RESERVED, SPLIT

OWN = ("file", "key", "source", "sha256", "diverged", "duplicate_of", *RESERVED)
"""Columns that an import fills itself; labels of the same name get another."""


class Plan:
    """Decides which networks are written, and with which rows; notes it in the report.

    Args:
        labels: the table of labels, if there is one.
        splits: the table of splits, if there is one.
        duplicates: what happens to networks with the weights of an earlier one.
        report: where everything that is to be said is noted.
    """

    def __init__(
        self,
        labels: JoinTable | None,
        splits: JoinTable | None,
        duplicates: Duplicates,
        report: ImportReport,
    ) -> None:
        self.labels, self.splits = labels, splits
        self.duplicates, self.report = duplicates, report

    def make(self, survey: Survey) -> tuple[list[Entry], list[Row]]:
        """Give each network its row, leave out duplicates, and order the rest by spec.

        Raises:
            DataError: labels or splits do not fit the networks.
        """
        entries = survey.entries
        names = [(entry.file, entry.key) for entry in entries]
        labels = self._joined(self.labels, names, "labels")
        splits = self._joined(self.splits, names, "splits")
        rows = [
            _row(entry, label, split)
            for entry, label, split in zip(entries, labels, splits, strict=True)
        ]
        for entry in entries:
            entry.row = {}  # What it held is in the rows.
        entries, rows = self._without_duplicates(entries, rows)
        self._note(survey, rows)
        order = {fingerprint: place for place, fingerprint in enumerate(survey.specs)}
        pairs = sorted(zip(entries, rows, strict=True), key=lambda pair: order[pair[0].spec])
        entries, rows = [entry for entry, _ in pairs], [row for _, row in pairs]
        mixed = settle(rows)
        if mixed:
            self.report.notes.append(
                f"columns with values of several types became text: {', '.join(mixed)}"
            )
        return entries, rows

    def _joined(
        self, table: JoinTable | None, names: Sequence[tuple[str, str]], what: str
    ) -> list[Row | None]:
        if table is None:
            return [None] * len(names)
        rows, report = join(table, names)
        self.report.notes += report.lines(what)
        return rows

    def _without_duplicates(
        self, entries: list[Entry], rows: list[Row]
    ) -> tuple[list[Entry], list[Row]]:
        """Leave out or mark networks with the weights of an earlier one."""
        first: dict[tuple[str, str], int] = {}
        kept: list[int] = []
        differing = 0
        mark = self.duplicates == "mark"
        for place, entry in enumerate(entries):
            earlier = first.setdefault((entry.spec, entry.sha256), place)
            if earlier != place:
                name, same_as = (show((e.file, e.key)) for e in (entry, entries[earlier]))
                self.report.duplicates.append({"network": name, "same_as": same_as})
                differing += _labels_differ(rows[place], rows[earlier])
                rows[place]["duplicate_of"] = same_as
            if earlier == place or mark:
                kept.append(place)
        if mark and self.report.duplicates:
            for row in rows:
                row.setdefault("duplicate_of", None)
        if differing:
            self.report.notes.append(
                f"{differing:,} of the networks with the same weights have other labels or another "
                "split than the earlier one"
            )
        self.report.duplicates_kept = mark
        return [entries[i] for i in kept], [rows[i] for i in kept]

    def _note(self, survey: Survey, rows: list[Row]) -> None:
        report = self.report
        report.problems = survey.problems
        report.networks = len(rows)
        report.specs = len({entry.spec for entry in survey.entries})
        report.diverged = sum(bool(row["diverged"]) for row in rows)
        if any(SPLIT in row for row in rows):
            counts = Counter(row.get(SPLIT) for row in rows)
            none = counts.pop(None, 0)
            report.splits = {str(name): count for name, count in counts.items()}
            if none:
                report.notes.append(f"in no split: {none:,} networks")
            crossing = crossing_groups(
                [row["source"] for row in rows], [row.get(SPLIT) for row in rows]
            )
            if crossing:
                report.notes.append(
                    f"{len(crossing):,} sources have networks in several splits, such as "
                    f"{crossing[0]}: nearly the same networks are in training and test"
                )
        notes: dict[str, list[str]] = {}
        for entry in survey.entries:
            for note in entry.notes:
                notes.setdefault(note, []).append(entry.file)
        report.notes += [
            f"{note}: {len(files):,} files, such as {files[0]}" for note, files in notes.items()
        ]


def _row(entry: Entry, labels: Row | None, split: Row | None) -> Row:
    """A network's row of metadata."""
    own: Row = {"file": entry.file, "key": entry.key, "source": entry.source}
    told = {**entry.row, **(split or {}), **(labels or {})}
    for name, value in told.items():
        own[_column(name)] = value
    if split is not None:
        own[SPLIT] = split.get(SPLIT)
    return {**own, "sha256": entry.sha256, "diverged": not entry.finite}


def _column(name: str) -> str:
    return f"{name}_label" if name in OWN else name


def _labels_differ(left: Row, right: Row) -> bool:
    names = (set(left) | set(right)) - set(OWN)
    return any(not same(left.get(name), right.get(name)) for name in names)
