"""Parts: the pieces of a zoo that is being made, each complete or not there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weightspace.errors import FileError
from weightspace.zoo.store_files import FileRecord, file_size, read_json
from weightspace.zoo.store_manifest import ShardRecord, sidecars


@dataclass(frozen=True, slots=True)
class Part:
    """A complete part.

    Args:
        shard: its weights.
        rows: its networks' rows of metadata.
    """

    shard: ShardRecord
    rows: list[dict[str, Any]]


def shard_name(part: int) -> str:
    """The name of a part's shard."""
    return f"part-{part:06d}.safetensors"


def marker_name(part: int) -> str:
    """The name of a part's commit marker, which holds its rows until the zoo is joined."""
    return f"part-{part:06d}.json"


def read_part(folder: Path, part: int) -> Part | None:
    """Read a part's commit marker; None if the part is not complete."""
    name = shard_name(part)
    try:
        marker = read_json(folder / marker_name(part))
        file = FileRecord(name, marker["bytes"], marker["sha256"])
        shard = ShardRecord(file, marker["spec"], marker["networks"])
        if file_size(folder / name) != file.size:
            return None
        return Part(shard, marker["rows"])
    except (FileError, KeyError):
        return None


def read_parts(folder: Path, count: int | None) -> list[Part]:
    """Read all parts of a zoo.

    Args:
        folder: the zoo.
        count: how many there must be, if known.

    Raises:
        FileError: there are none, or some are missing.
    """
    present = [_number(path) for path in sidecars(folder)]
    wanted = range(max(count or 0, *(part + 1 for part in present), 0))
    parts = {number: read_part(folder, number) for number in wanted}
    missing = [str(number) for number, part in parts.items() if part is None]
    if missing or not parts:
        raise FileError(
            folder,
            expected=f"parts 0 to {len(wanted) - 1}" if parts else "at least one part",
            found=f"{len(missing)} missing: {', '.join(missing[:10])}" if parts else "none",
            hint="Run the command that makes the zoo again: it goes on where it stopped.",
        )
    return [part for part in parts.values() if part is not None]


def _number(path: Path) -> int:
    match = re.fullmatch(r"part-(\d+)\.json", path.name)
    return int(match[1]) if match else -1
