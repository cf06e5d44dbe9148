"""The interface of layouts: ways in which people keep many trained networks in a folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from weightspace.zoo.importing.found import FoundNetwork, Unit
from weightspace.zoo.importing.listing import Listing, walk
from weightspace.zoo.importing.split_file import SplitTable


@dataclass(frozen=True)
class Layout(ABC):
    """A way of keeping networks in a folder; it is sent to the processes that read them.

    Args:
        folder: the folder.
        activation: of every network's hidden layers, where its file does not tell.
    """

    folder: Path
    activation: str | None = None

    name: ClassVar[str]
    summary: ClassVar[str]

    @classmethod
    @abstractmethod
    def fits(cls, folder: Path, files: list[str]) -> bool:
        """Whether a folder has the marks of this layout.

        Args:
            folder: the folder.
            files: every file below it, by its path in it.
        """

    @abstractmethod
    def listing(self, files: list[str]) -> Listing:
        """What is to be read, in order, without reading it.

        Raises:
            FileError: a file that all the others depend on cannot be read.
        """

    @abstractmethod
    def read(self, unit: Unit) -> Iterator[FoundNetwork]:
        """Read the networks of a unit, one after another.

        Raises:
            WeightspaceError: the unit, or the rest of it, cannot be read.
        """

    def splits(self, files: list[str]) -> SplitTable | None:
        """The splits that come with the folder, if it has some."""
        del files
        return None

    def files(self) -> list[str]:
        """Every file below the folder."""
        return walk(self.folder)

    def as_dict(self) -> dict[str, Any]:
        """What the networks depend on beside the files."""
        return {"layout": self.name, "activation": self.activation}
