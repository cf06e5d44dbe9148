"""The files of a folder, in an order that does not depend on the file system."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from weightspace.errors import FileError
from weightspace.zoo.importing.found import Unit
from weightspace.zoo.store_manifest import MANIFEST, PLAN

CHECKPOINT_SUFFIXES = frozenset({
    ".pt", ".pth", ".ckpt", ".th", ".bin", ".safetensors", ".npz", ".h5", ".hdf5", ".keras",
    ".onnx", ".zip",
})  # fmt: skip
"""The names under which checkpoints are looked for; their content decides what they are."""


GLANCES = 20
"""Files that are looked at to find out a folder's layout: the first may be damaged."""


@dataclass(frozen=True)
class Listing:
    """What there is to read in a folder.

    Args:
        units: in the order in which their networks will stand in the zoo.
        ignored: how many files of other kinds were not read, by the end of their name.
    """

    units: tuple[Unit, ...]
    ignored: dict[str, int] = field(default_factory=dict)


def check_folder(folder: Path) -> None:
    """Check that a folder can be imported.

    Raises:
        FileError: it is missing, a file, or a zoo already.
    """
    if not folder.is_dir():
        raise FileError(
            folder,
            expected="a folder with trained networks",
            found="a file" if folder.exists() else "no such folder",
            hint="Give the folder that the file lies in." if folder.exists() else "",
        )
    if (folder / MANIFEST).is_file() or (folder / PLAN).is_file():
        raise FileError(
            folder,
            expected="a folder of checkpoints",
            found="one that is a weightspace zoo already",
            hint="Use it as it is, join it with others by 'weightspace zoo merge', or divide it "
            "by 'weightspace zoo split'.",
        )


def walk(folder: Path) -> list[str]:
    """Every file below a folder by its path in it; numbers in names count by their value.

    Hidden files and links to folders are passed over.
    """
    found: list[str] = []
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        base = Path(place).relative_to(folder)
        found += [(base / name).as_posix() for name in files if not name.startswith(".")]
    return sorted(found, key=natural)


def natural(path: str) -> list[tuple[int, int, str]]:
    """A key for sorting in which ``run_10`` comes behind ``run_9``.

    >>> sorted(["a10/x", "a9/x"], key=natural)
    ['a9/x', 'a10/x']
    """
    parts = re.split(r"(\d+)", path)
    return [(1, int(p), p) if p.isdecimal() else (0, 0, p) for p in parts]


def list_files(files: Iterable[str], take: Callable[[str], bool]) -> Listing:
    """Divide files into those that are read and those that are not."""
    units: list[Unit] = []
    ignored: Counter[str] = Counter()
    for file in files:
        if take(file):
            units.append(Unit(file))
        else:
            ignored[readable(Path(file).suffix.lower() or Path(file).name)] += 1
    return Listing(tuple(units), dict(sorted(ignored.items())))


def readable(name: str) -> str:
    """A file's name as text that can be printed; bytes that are no text are escaped."""
    return name.encode("utf-8", "backslashreplace").decode()


def suffix_of(file: str) -> str:
    """The end of a file's name, in small letters."""
    return Path(file).suffix.lower()
