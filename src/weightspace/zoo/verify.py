"""Verification: does a zoo hold what its manifest says, and numbers that can be used?"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console, Group
from rich.progress import track
from rich.table import Table
from rich.text import Text
from torch import Tensor

from weightspace.errors import WeightspaceError, counted, reason_of
from weightspace.zoo.shards import Run, ShardLayout, TensorPlace, read_layout, read_rows
from weightspace.zoo.splits import crossing_groups
from weightspace.zoo.store import Zoo
from weightspace.zoo.store_manifest import MANIFEST, Manifest, ShardRecord
from weightspace.zoo.store_rows import count_splits

_CHUNK = 16 * 2**20  # bytes of weights looked at together


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong in a zoo.

    Args:
        file: where.
        expected: what should be there.
        found: what is.
    """

    file: str
    expected: str
    found: str


@dataclass
class VerifyReport:
    """What :func:`verify` found. Prints as a table, also on a rich console.

    Args:
        path: the zoo.
        networks: how many networks it holds, by its manifest.
        shards: how many shards.
        problems: everything that is wrong.
        not_finite: the networks with a NaN or infinite weight, ascending.
    """

    path: Path
    networks: int = 0
    shards: int = 0
    problems: list[Problem] = field(default_factory=list)
    not_finite: list[int] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def add(self, file: str, *, expected: str, found: str) -> None:
        """Note a problem."""
        self.problems.append(Problem(file, expected, found))

    def add_error(self, file: str, error: WeightspaceError) -> None:
        """Note an error as a problem of a file."""
        subject = error.subject.removeprefix(f"{self.path}").lstrip("/\\, ")
        if not subject.startswith(file):
            subject = f"{file}, {subject}" if subject else file
        self.add(subject, expected=error.expected, found=error.found)

    def to_dict(self) -> dict[str, Any]:
        """Write the report as plain data, for JSON."""
        return {
            "path": str(self.path),
            "ok": self.ok,
            "networks": self.networks,
            "shards": self.shards,
            "problems": [
                {"file": p.file, "expected": p.expected, "found": p.found} for p in self.problems
            ],
            "not_finite": self.not_finite,
        }

    def __rich__(self) -> Group:
        state = "nothing wrong" if self.ok else counted(len(self.problems), "problem")
        # Text, because plain strings are read as markup: brackets would vanish.
        networks, shards = counted(self.networks, "network"), counted(self.shards, "shard")
        summary = f"{self.path}: {networks} in {shards}, {state}"
        title = Text(summary, no_wrap=True, overflow="ignore")
        if self.ok:
            return Group(title)
        table = Table()
        for column in ("file", "expected", "found"):
            table.add_column(column, overflow="fold")
        for p in self.problems:
            table.add_row(Text(p.file), Text(p.expected), Text(p.found))
        return Group(title, table)

    def __str__(self) -> str:
        text = io.StringIO()
        Console(file=text, width=120, no_color=True).print(self)
        return text.getvalue().rstrip()


def verify(path: Path | str) -> VerifyReport:
    """Check every byte of a zoo.

    The manifest's fields; each shard's size, checksum, header and shapes; that all weights
    are finite; that the metadata has a row for each network, in order, and the splits that
    the manifest says; that no source has networks in two splits. Everything is checked
    whatever is found on the way.

    Args:
        path: the zoo's folder.

    Returns:
        The report. Damage is in the report and raises nothing.
    """
    report = VerifyReport(Path(path))
    try:
        manifest = Manifest.read(report.path)
        zoo = Zoo(report.path, manifest)
        report.networks, report.shards = len(zoo), len(manifest.shards)
        _ = zoo.specs
    except WeightspaceError as error:
        report.add_error(MANIFEST, error)
        return report
    first = 0
    for shard in track(manifest.shards, "Checking shards", **_quiet()):
        _check_shard(report, zoo, shard, first)
        first += shard.networks
    _check_metadata(report, zoo, manifest)
    return report


def _quiet() -> dict[str, Any]:
    """A progress bar only where people look, and gone when done."""
    console = Console(stderr=True)
    return {"console": console, "transient": True, "disable": not console.is_terminal}


def _check_shard(report: VerifyReport, zoo: Zoo, shard: ShardRecord, first: int) -> None:
    name = shard.file.name
    try:
        shard.file.require_size(zoo.path)
        with (zoo.path / name).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != shard.file.sha256:
            report.add(name, expected=f"SHA-256 {shard.file.sha256}", found=digest)
        layout = read_layout(zoo.path / name)
        layout.require(zoo.specs[shard.spec], shard.networks)
        bad = _not_finite(layout, shard.networks)
    except WeightspaceError as error:
        report.add_error(name, error)
    except OSError as error:
        report.add(name, expected="a readable file", found=reason_of(error))
    else:
        if bad:
            networks = [first + row for row in bad]
            report.not_finite += networks
            report.add(
                name, expected="finite weights", found=f"NaN or infinity in {_list(networks)}"
            )


def _not_finite(layout: ShardLayout, networks: int) -> list[int]:
    """The rows of a shard with a value that is not finite."""
    bad = np.zeros(networks, dtype=np.bool_)
    for name, place in layout.tensors.items():
        if place.dtype.is_floating_point or place.dtype.is_complex:
            for start, rows in _chunks(layout, name, place, networks):
                # Types of 8 bits have no test of their own; none of their values overflows.
                wide = rows.float() if place.dtype.itemsize == 1 else rows
                bad[start : start + len(rows)] |= ~torch.isfinite(wide).all(dim=1).numpy()
    return [int(row) for row in np.flatnonzero(bad)]


def _chunks(
    layout: ShardLayout, name: str, place: TensorPlace, networks: int
) -> Iterator[tuple[int, Tensor]]:
    """Read a tensor some rows at a time, ``[rows, values]``."""
    if not place.row_bytes:
        return
    step = max(1, _CHUNK // place.row_bytes)
    for start in range(0, networks, step):
        count = min(step, networks - start)
        buffer = np.empty(count * place.row_bytes, dtype=np.uint8)
        read_rows(layout, [Run(start, count, 0)], {name: buffer.data})
        yield start, torch.from_numpy(buffer).view(place.dtype).reshape(count, -1)


def _check_metadata(report: VerifyReport, zoo: Zoo, manifest: Manifest) -> None:
    name = manifest.metadata.name
    try:
        names = zoo.metadata.column_names
        for column, wanted in {
            "network": np.arange(len(zoo)),
            "spec": zoo.spec_indices(np.arange(len(zoo))),
        }.items():
            values = zoo.column(column)
            wrong = np.flatnonzero(values != wanted)
            if len(wrong):
                report.add(
                    f"{name}, column {column!r}",
                    expected=f"{wanted[wrong[0]]} in row {wrong[0]}",
                    found=str(values[wrong[0]]),
                )
        if manifest.splits:
            _check_splits(report, zoo, manifest)
        if manifest.splits and "source" in names:
            _check_sources(report, zoo, manifest)
    except WeightspaceError as error:
        report.add_error(name, error)


def _check_splits(report: VerifyReport, zoo: Zoo, manifest: Manifest) -> None:
    """A network has one split by the layout; the manifest must count the same ones."""
    found = count_splits(zoo.metadata, manifest.split_column, ())
    present = {split: number for split, number in manifest.splits.items() if number}
    if found != present:
        report.add(
            f"{manifest.metadata.name}, column {manifest.split_column!r}",
            expected=f"splits {present}",
            found=f"{found}",
        )


def _check_sources(report: VerifyReport, zoo: Zoo, manifest: Manifest) -> None:
    crossing = crossing_groups(
        zoo.metadata.column("source").to_pylist(),
        zoo.metadata.column(manifest.split_column).to_pylist(),
    )
    if crossing:
        report.add(
            f"{manifest.metadata.name}, column 'source'",
            expected="every source in one split",
            found=f"in several: {_list(crossing)}",
        )


def _list(items: list[Any], limit: int = 20) -> str:
    text = ", ".join(str(item) for item in items[:limit])
    more = len(items) - limit
    return f"{text} and {more} more" if more > 0 else text
