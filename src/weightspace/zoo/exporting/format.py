"""The interface of export formats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from weightspace.zoo.store import Zoo

NETWORKS = 64
"""Networks read at once."""


class Format(ABC):
    """A form in which other programs read networks."""

    name: ClassVar[str]
    summary: ClassVar[str]

    @abstractmethod
    def steps(self, zoo: Zoo) -> int:
        """How many steps writing takes, for the progress bar and for going on."""

    @abstractmethod
    def write(self, zoo: Zoo, folder: Path, step: int) -> int:
        """Write a step's files, each all or nothing.

        Returns:
            How many networks they hold.

        Raises:
            FileError: a network cannot be written in this form, or the disk is full.
        """


def blocks(zoo: Zoo) -> list[range]:
    """The networks, in blocks that are read together."""
    return [range(first, min(first + NETWORKS, len(zoo))) for first in range(0, len(zoo), NETWORKS)]
