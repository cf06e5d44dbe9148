"""Writing a zoo in another form."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from weightspace.errors import DataError, FileError, reason_of
from weightspace.zoo.exporting.files import Npz, Safetensors, Torch
from weightspace.zoo.exporting.format import Format
from weightspace.zoo.exporting.hub import Hub
from weightspace.zoo.exporting.tables import Csv
from weightspace.zoo.progress import network_progress
from weightspace.zoo.splitting import origin
from weightspace.zoo.store import Zoo
from weightspace.zoo.store_files import read_json, temporaries, write_file
from weightspace.zoo.store_manifest import json_lines

FORMATS: Mapping[str, type[Format]] = {
    kind.name: kind for kind in (Safetensors, Npz, Torch, Csv, Hub)
}
"""The forms by name."""
PROGRESS = ".export.json"


def export_zoo(zoo: Zoo, folder: Path | str, *, format: str) -> None:
    """Write a zoo in a form that other programs read; interrupted, the same call goes on.

    Args:
        zoo: what to write.
        folder: where; empty or not there.
        format: a name of :data:`FORMATS`.

    Raises:
        DataError: there is no such format.
        FileError: the folder holds something else, or a network cannot be written so.
    """
    folder = Path(folder)
    if format not in FORMATS:
        raise DataError("format", expected=f"one of {', '.join(FORMATS)}", found=repr(format))
    kind = FORMATS[format]()
    plan = {"zoo": origin(zoo), "format": format}
    first = _begin(folder, plan)
    with network_progress() as progress:
        bar = progress.add_task(f"writing {format}", total=len(zoo))
        for step in range(first, kind.steps(zoo)):
            progress.advance(bar, kind.write(zoo, folder, step))
            write_file(folder / PROGRESS, json_lines({**plan, "steps": step + 1}))
    for leftover in [*temporaries(folder), folder / PROGRESS]:
        leftover.unlink(missing_ok=True)


def _begin(folder: Path, plan: Mapping[str, object]) -> int:
    """Make the folder, or find out how far an interrupted export had come."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        present = {path.name for path in folder.iterdir()} - {p.name for p in temporaries(folder)}
    except OSError as error:
        raise FileError(
            folder, expected="a folder that can be made", found=reason_of(error)
        ) from error
    if PROGRESS in present:
        found = read_json(folder / PROGRESS)
        steps = found.pop("steps", 0)
        if found == plan and isinstance(steps, int):
            return steps
    if present:
        raise FileError(
            folder,
            expected="an empty folder",
            found=f"one with {', '.join(sorted(present)[:3])}",
            hint="Choose another folder, or delete this one.",
        )
    write_file(folder / PROGRESS, json_lines({**plan, "steps": 0}))
    return 0
