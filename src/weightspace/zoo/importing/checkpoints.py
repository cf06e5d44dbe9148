"""A folder of checkpoints, of any formats and in any subfolders."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar

from weightspace.errors import FileError
from weightspace.zoo.importing.found import FoundNetwork, Unit
from weightspace.zoo.importing.layout import Layout
from weightspace.zoo.importing.listing import CHECKPOINT_SUFFIXES, Listing, list_files, suffix_of
from weightspace.zoo.importing.states import read_networks
from weightspace.zoo.store_files import read_json

INDEX = ".index.json"
_MOMENT = re.compile(r"(.*?)[-_. ]?(epoch|step|iter|iteration|checkpoint|ckpt)[-_=. ]?(\d+)", re.I)
_MAGIC = (b"PK\x03\x04", b"\x80\x02\x8a\n", b"\x89HDF")


@dataclass(frozen=True)
class Checkpoints(Layout):
    """Any folder: every file that is named like a checkpoint is read.

    Files without an ending are read too if their first bytes are those of one. A name such as
    ``run/model_epoch_12.pt`` tells the epoch, and that all checkpoints of ``run/model`` are of
    one source.
    """

    name: ClassVar[str] = "checkpoints"
    summary: ClassVar[str] = "a folder of checkpoint files of any format, in any subfolders"

    @classmethod
    def fits(cls, folder: Path, files: list[str]) -> bool:
        """Any folder can be read this way."""
        return True

    def listing(self, files: list[str]) -> Listing:
        """Every checkpoint; of one in several shards its index alone."""
        shards = {shard for f in files if f.endswith(INDEX) for shard in self._shards(f)}

        def take(file: str) -> bool:
            if file in shards:
                return False
            known = file.endswith(INDEX) or suffix_of(file) in CHECKPOINT_SUFFIXES
            return known or (not PurePosixPath(file).suffix and has_magic(self.folder / file))

        return list_files(files, take)

    def _shards(self, index: str) -> set[str]:
        """The files that an index of shards names; none if it cannot be read."""
        try:
            places = read_json(self.folder / index).get("weight_map")
        except FileError:
            return set()  # It is reported when it is read.
        names = places.values() if isinstance(places, dict) else ()
        return {(PurePosixPath(index).parent / str(name)).as_posix() for name in names}

    def read(self, unit: Unit) -> Iterator[FoundNetwork]:
        """Read a file."""
        for network in read_networks(self.folder / unit.file, activation=self.activation):
            moment = None if network.key else moment_of(unit.file)
            if moment is None:
                yield network
            else:
                source, word, number = moment
                row = {word: number, **network.row}
                yield dataclasses.replace(network, row=row, source=source)


def moment_of(file: str) -> tuple[str, str, int] | None:
    """The run, the word and the number in a name that tells a moment of training.

    >>> moment_of("runs/a/model_epoch_012.pt"), moment_of("runs/a/net.pt")
    (('runs/a/model', 'epoch', 12), None)
    """
    path = PurePosixPath(file)
    match = _MOMENT.fullmatch(path.stem)
    if match is None:
        return None
    word = "epoch" if match[2].lower() == "epoch" else "step"
    return (path.parent / match[1]).as_posix(), word, int(match[3])


def has_magic(path: Path) -> bool:
    """Whether a file begins like a checkpoint."""
    try:
        with path.open("rb") as file:
            head = file.read(16)
    except OSError:
        return True  # It is reported when it is read.
    return head.startswith(_MAGIC)


def only(networks: Iterator[FoundNetwork], path: Path) -> FoundNetwork:
    """The one network of a file.

    Raises:
        FileError: it holds several.
    """
    found = list(networks)
    if len(found) != 1:
        raise FileError(path, expected="one network", found=f"{len(found)}")
    return found[0]
