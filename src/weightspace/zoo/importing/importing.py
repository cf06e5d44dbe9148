"""Taking in folders of trained networks as zoos."""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from weightspace.errors import FileError, WeightspaceError
from weightspace.graph import GraphSpec, spec_from_dict
from weightspace.zoo.importing.blueprints import require_activation
from weightspace.zoo.importing.found import FoundNetwork
from weightspace.zoo.importing.joining import JoinTable, join, show
from weightspace.zoo.importing.labels import read_labels
from weightspace.zoo.importing.layout import Layout
from weightspace.zoo.importing.layouts import choose_layout
from weightspace.zoo.importing.listing import Listing, check_folder
from weightspace.zoo.importing.report import ImportReport
from weightspace.zoo.importing.split_file import read_splits
from weightspace.zoo.importing.states import digest_of
from weightspace.zoo.importing.survey import (
    BLOCK,
    Entry,
    Journal,
    Survey,
    SurveyTask,
    read_unit,
    survey_block,
    units_digest,
)
from weightspace.zoo.importing.tables import Row, same, settle
from weightspace.zoo.progress import network_progress
from weightspace.zoo.shards import spec_tensors
from weightspace.zoo.splits import crossing_groups
from weightspace.zoo.store import Zoo
from weightspace.zoo.store_files import temporaries
from weightspace.zoo.store_manifest import MANIFEST, PLAN, sidecars
from weightspace.zoo.store_rows import RESERVED, SPLIT
from weightspace.zoo.workers import run_tasks
from weightspace.zoo.writer import ZooWriter

Duplicates = Literal["once", "mark"]
PART_NETWORKS = 1024
PART_BYTES = 32 << 20
OWN = ("file", "key", "source", "sha256", "diverged", "duplicate_of", *RESERVED)
"""Columns that an import fills itself; labels of the same name get another."""


@dataclass(frozen=True)
class ImportOptions:
    """How a folder is taken in.

    Args:
        layout: the name of its layout, or ``auto``.
        labels: a CSV or JSON file of labels.
        splits: a file of splits; the one in the folder, where a layout has one, if None.
        activation: of every network's hidden layers, where the files do not tell.
        duplicates: ``once`` leaves out networks whose weights an earlier one has; ``mark``
            keeps them, with the earlier one's name in the column ``duplicate_of``.
        specs: of networks that names and shapes do not tell, such as those of modules; a
            network with the tensors of one of them is of that spec.
        workers: processes that read files.
    """

    layout: str = "auto"
    labels: Path | None = None
    splits: Path | None = None
    activation: str | None = None
    duplicates: Duplicates = "once"
    specs: tuple[GraphSpec, ...] = ()
    workers: int = 1


def import_zoo(
    folder: Path | str, out: Path | str, *, options: ImportOptions | None = None
) -> tuple[Zoo, ImportReport]:
    """Take in a folder of trained networks as a zoo.

    Every file is read once to see what it holds, and again to be written, a part at a time.
    What cannot be read is skipped and reported. Interrupted at any moment, the same call goes
    on where it stopped. Nothing in a file is executed.

    Args:
        folder: the networks; it is not changed.
        out: the zoo's folder; the survey is kept beside it until the zoo is finished.
        options: how.

    Returns:
        The zoo, and what was found; the same report is in its provenance.

    Raises:
        FileError: the folder is missing, empty or a zoo already; no file could be read; or
            ``out`` holds something else.
        DataError: labels or splits do not fit the networks.
    """
    folder, out, options = Path(folder), Path(out), options or ImportOptions()
    check_folder(folder)
    _check_apart(folder, out)
    require_activation(options.activation)
    return _Import(folder, out, options).run()


class _Import:
    """One import, step by step."""

    def __init__(self, folder: Path, out: Path, options: ImportOptions) -> None:
        self.folder, self.out, self.options = folder, out, options
        kind = choose_layout(options.layout, folder)
        self.layout: Layout = kind(folder, options.activation)
        files = self.layout.files()
        self.listing: Listing = self.layout.listing(files)
        if not self.listing.units:
            raise _nothing(folder, self.layout, self.listing)
        self.labels = None if options.labels is None else read_labels(options.labels)
        self.splits = (
            self.layout.splits(files) if options.splits is None else read_splits(options.splits)
        )
        self.inputs = self._inputs()
        self._recent: tuple[int, list[FoundNetwork]] = (-1, [])
        self.report = ImportReport(folder.name, self.layout.name, ignored=self.listing.ignored)

    def run(self) -> tuple[Zoo, ImportReport]:
        """Survey, plan, write."""
        finished = self._finished()
        if finished is not None:
            return finished
        journal = self._journal()
        survey = self._survey(journal)
        if not survey.entries:
            raise _unreadable(self.folder, survey)
        entries, rows = self._plan(survey)
        zoo = self._write(survey, entries, rows)
        journal.delete()
        return zoo, self.report

    # -- what was done already -------------------------------------------------------------

    def _inputs(self) -> dict[str, Any]:
        """What the zoo depends on."""
        options = self.options
        return {
            **self.layout.as_dict(),
            "files": units_digest(self.folder, self.listing.units, times=False),
            "labels": None if options.labels is None else _file_digest(options.labels),
            "splits": None if self.splits is None else _digest(str(dict(self.splits.rows))),
            "duplicates": options.duplicates,
            "specs": [spec.fingerprint for spec in options.specs],
        }

    def _finished(self) -> tuple[Zoo, ImportReport] | None:
        """The zoo, if this import was finished before."""
        if not (self.out / MANIFEST).is_file():
            return None
        zoo = Zoo.open(self.out)
        if zoo.recipe.get("inputs") != self.inputs:
            raise FileError(
                self.out,
                expected="no zoo, or one of the same folder and options",
                found=f"a finished zoo of {len(zoo)} networks that was made otherwise",
                hint="Choose another folder, or delete this one.",
            )
        if (self.out / PLAN).is_file() or any(temporaries(self.out)) or sidecars(self.out):
            # Killed between the last step and tidying up.
            ZooWriter(self.out, specs=zoo.specs, recipe=zoo.recipe).finish()
        Journal.remove(self._journal_folder)
        return zoo, ImportReport(**zoo.provenance["import"])

    @property
    def _journal_folder(self) -> Path:
        return self.out.parent / f".{self.out.name}.import"

    def _journal(self) -> Journal:
        told = self.labels is not None and any("activation" in r for r in self.labels.rows.values())
        identity = {
            "folder": str(self.folder.resolve()),
            **self.layout.as_dict(),
            "files": units_digest(self.folder, self.listing.units, times=True),
            "labels": self.inputs["labels"] if told else None,
            "specs": self.inputs["specs"],
            "block": BLOCK,
        }
        return Journal(self._journal_folder, identity)

    # -- survey ----------------------------------------------------------------------------

    def _survey(self, journal: Journal) -> Survey:
        self._check_names()
        units = self.listing.units
        starts = range(0, len(units), BLOCK)
        tasks = [
            SurveyTask(
                n,
                first,
                self.layout,
                units[first : first + BLOCK],
                self.options.labels,
                self.options.specs,
            )
            for n, first in enumerate(starts)
            if not journal.has(n)
        ]
        with network_progress() as progress:
            bar = progress.add_task("looking at files", total=len(units))
            progress.advance(bar, len(units) - sum(len(task.units) for task in tasks))
            sizes = {task.number: len(task.units) for task in tasks}
            results = run_tasks(survey_block, tasks, workers=self.options.workers)
            try:
                for number, block in results:
                    journal.write(number, block)
                    progress.advance(bar, sizes[number])
            finally:
                results.close()
        return journal.read(len(starts))

    def _check_names(self) -> None:
        """Find labels that could mean several files before reading thousands of them."""
        names = [(unit.file, "") for unit in self.listing.units if unit.rows is None]
        for table in (self.labels, self.splits):
            if table is not None and len(names) == len(self.listing.units):
                hits = [(name, table.find(name)) for name in names]
                fitting = [name for name, hit in hits if hit is not None]
                if fitting:
                    join(table, fitting)

    # -- plan ------------------------------------------------------------------------------

    def _plan(self, survey: Survey) -> tuple[list[Entry], list[Row]]:
        """Decide which networks are written, and with which rows."""
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
        mark = self.options.duplicates == "mark"
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

    # -- writing ---------------------------------------------------------------------------

    def _write(self, survey: Survey, entries: list[Entry], rows: list[Row]) -> Zoo:
        used = list(dict.fromkeys(entry.spec for entry in entries))
        specs = [spec_from_dict(survey.specs[fingerprint]) for fingerprint in used]
        places = {fingerprint: place for place, fingerprint in enumerate(used)}
        parts = list(_parts(entries, dict(zip(used, specs, strict=True))))
        content = _digest("".join(f"{e.file}\0{e.key}\0{e.sha256}\n" for e in entries))
        writer = ZooWriter(
            self.out,
            specs=specs,
            recipe={
                "name": "import",
                "layout": self.layout.name,
                "folder": self.folder.name,
                "inputs": self.inputs,
                "networks": content,
            },
            provenance={"import": self.report.to_dict()},
            parts=len(parts),
        )
        with network_progress() as progress:
            bar = progress.add_task("writing networks", total=len(entries))
            for number, (first, last) in enumerate(parts):
                if not writer.has_part(number):
                    block = entries[first:last]
                    place = places[block[0].spec]
                    state = self._stacked(specs[place], block)
                    writer.write_part(number, state, rows[first:last], spec=place)
                progress.advance(bar, last - first)
        column = SPLIT if any(SPLIT in row for row in rows) else None
        return writer.finish(split_column=column)

    def _stacked(self, spec: GraphSpec, entries: Sequence[Entry]) -> dict[str, Tensor]:
        """Read a part's networks again, into one tensor for each parameter.

        Raises:
            FileError: a file was changed since the survey.
        """
        stacked = {
            p.name: torch.empty((len(entries), *p.shape), dtype=getattr(torch, p.dtype))
            for p in spec_tensors(spec)
        }
        wanted: dict[int, dict[str, int]] = {}
        for place, entry in enumerate(entries):
            wanted.setdefault(entry.unit, {})[entry.key] = place
        for number, keys in wanted.items():
            left = dict(keys)
            for network in self._networks(number):
                place = left.pop(network.key, -1)
                if place < 0:
                    continue
                if digest_of(spec, network.state) != entries[place].sha256:
                    raise _changed(self.folder, entries[place])
                for name, tensor in stacked.items():
                    tensor[place] = network.state[name]
            if left:
                raise _changed(self.folder, entries[next(iter(left.values()))])
        return stacked

    def _networks(self, number: int) -> Sequence[FoundNetwork]:
        """The networks of a unit; the last one is kept, as the next part may need it too."""
        if self._recent[0] != number:
            self._recent = (number, [])
            with contextlib.suppress(WeightspaceError):  # it was reported by the survey
                for network in read_unit(self.layout, self.listing.units[number]):
                    self._recent[1].append(network)
        return self._recent[1]


def _parts(entries: Sequence[Entry], specs: dict[str, GraphSpec]) -> Iterator[tuple[int, int]]:
    """Divide networks, which are in order of their specs, into parts of bounded size."""
    first = 0
    while first < len(entries):
        spec = specs[entries[first].spec]
        width = sum(p.numel * getattr(torch, p.dtype).itemsize for p in spec_tensors(spec))
        limit = max(1, min(PART_NETWORKS, PART_BYTES // max(1, width)))
        last = first
        while last < min(len(entries), first + limit) and entries[last].spec == entries[first].spec:
            last += 1
        yield first, last
        first = last


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


def _check_apart(folder: Path, out: Path) -> None:
    inside, outside = out.resolve(), folder.resolve()
    if inside == outside or outside in inside.parents:
        raise FileError(
            out,
            expected=f"a place outside of {folder}",
            found="one within the folder that is taken in",
            hint="Choose another place with --out.",
        )


def _nothing(folder: Path, layout: Layout, listing: Listing) -> FileError:
    kinds = ", ".join(f"{count} {kind}" for kind, count in list(listing.ignored.items())[:5])
    return FileError(
        folder,
        expected=f"networks ({layout.summary})",
        found=f"only other files: {kinds}" if kinds else "an empty folder",
        hint="Files are known by their endings, such as .pt, .pth, .safetensors, .npz, .onnx."
        if kinds
        else "",
    )


def _unreadable(folder: Path, survey: Survey) -> FileError:
    first = survey.problems[0]
    return FileError(
        folder,
        expected="at least one network that can be read",
        found=f"none among {len(survey.problems)} files; {first['file']}: {first['reason']}",
    )


def _changed(folder: Path, entry: Entry) -> FileError:
    return FileError(
        folder / entry.file,
        expected="the weights that were there when the folder was looked at",
        found="others",
        hint="The file was changed meanwhile: run the command again.",
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _file_digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise FileError(path, expected="a readable file", found=str(error)) from error
