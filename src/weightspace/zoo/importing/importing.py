"""Taking in folders of trained networks as zoos."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from weightspace.errors import FileError, reason_of
from weightspace.graph import spec_from_dict
from weightspace.importers.files.hub import local_path
from weightspace.zoo.importing.blueprints import require_activation
from weightspace.zoo.importing.hub_dataset import is_hub_dataset, take_dataset
from weightspace.zoo.importing.joining import join
from weightspace.zoo.importing.journal import Journal
from weightspace.zoo.importing.labels import read_labels
from weightspace.zoo.importing.layout import Layout
from weightspace.zoo.importing.layouts import choose_layout
from weightspace.zoo.importing.listing import Listing, check_folder
from weightspace.zoo.importing.options import ImportOptions
from weightspace.zoo.importing.parts import PartReader, divide
from weightspace.zoo.importing.planning import Plan
from weightspace.zoo.importing.report import ImportReport
from weightspace.zoo.importing.split_file import read_splits
from weightspace.zoo.importing.survey import (
    BLOCK,
    Entry,
    Survey,
    SurveyTask,
    survey_block,
    units_digest,
)
from weightspace.zoo.importing.tables import Row
from weightspace.zoo.progress import network_progress
from weightspace.zoo.store import Zoo
from weightspace.zoo.store_files import temporaries
from weightspace.zoo.store_manifest import MANIFEST, PLAN, sidecars
from weightspace.zoo.store_rows import SPLIT
from weightspace.zoo.workers import run_tasks
from weightspace.zoo.writer import ZooWriter


def import_zoo(
    folder: Path | str, out: Path | str, *, options: ImportOptions | None = None
) -> tuple[Zoo, ImportReport]:
    """Take in a folder of trained networks as a zoo.

    Every file is read once to see what it holds, and again to be written, a part at a time.
    What cannot be read is skipped and reported. Interrupted at any moment, the same call goes
    on where it stopped. Nothing in a file is executed.

    Args:
        folder: the networks; it is not changed. Also a zoo that was exported as a dataset of
            the Hugging Face hub, or its address there (``hf://datasets/org/name``).
        out: the zoo's folder; the survey is kept beside it until the zoo is finished.
        options: how.

    Returns:
        The zoo, and what was found; the same report is in its provenance.

    Raises:
        FileError: the folder is missing, empty or a zoo already; no file could be read; or
            ``out`` holds something else.
        DataError: labels or splits do not fit the networks.
    """
    folder, out, options = local_path(folder), Path(out), options or ImportOptions()
    if is_hub_dataset(folder):
        _check_apart(folder, out)
        return take_dataset(folder, out)
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
        plan = Plan(self.labels, self.splits, self.options.duplicates, self.report)
        entries, rows = plan.make(survey)
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

    # -- writing ---------------------------------------------------------------------------

    def _write(self, survey: Survey, entries: list[Entry], rows: list[Row]) -> Zoo:
        used = list(dict.fromkeys(entry.spec for entry in entries))
        specs = [spec_from_dict(survey.specs[fingerprint]) for fingerprint in used]
        places = {fingerprint: place for place, fingerprint in enumerate(used)}
        parts = list(divide(entries, dict(zip(used, specs, strict=True))))
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
        reader = PartReader(self.layout, self.listing.units)
        with network_progress() as progress:
            bar = progress.add_task("writing networks", total=len(entries))
            for number, (first, last) in enumerate(parts):
                if not writer.has_part(number):
                    block = entries[first:last]
                    place = places[block[0].spec]
                    state = reader.stacked(specs[place], block)
                    writer.write_part(number, state, rows[first:last], spec=place)
                progress.advance(bar, last - first)
        column = SPLIT if any(SPLIT in row for row in rows) else None
        return writer.finish(split_column=column)


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


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _file_digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise FileError(path, expected="a readable file", found=reason_of(error)) from error
