"""Texts for language models of characters."""

from __future__ import annotations

import hashlib
import string
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor

from weightspace.errors import DataError, FileError, reason_of

ALPHABET = string.printable[:95] + "\n"
"""Printable ASCII and the line break; every other character is left out of a text."""

PYTHON = "python"


@dataclass(frozen=True, eq=False)
class Text:
    """A text as numbers of :data:`ALPHABET`: its beginning to train on, its end for testing.

    Args:
        train: nine tenths.
        test: the last tenth.
    """

    train: Int[Tensor, " n"]
    test: Int[Tensor, " m"]

    @property
    def sha256(self) -> str:
        """A hash of the characters, in hexadecimal digits."""
        return hashlib.sha256(torch.cat([self.train, self.test]).numpy().tobytes()).hexdigest()


@lru_cache(maxsize=2)
def read_text(name: str) -> Text:
    """Read a text, once in a process.

    Args:
        name: ``python`` for the chapters of the language reference that come with Python's
            own help (they differ between versions of Python), or the path of a text file.

    Raises:
        FileError: it cannot be read.
        DataError: it is too short to learn from.
    """
    characters = encode(_python() if name == PYTHON else _file(Path(name)))
    if len(characters) < 1000:
        raise DataError(
            f"text {name}", expected="at least 1000 characters", found=str(len(characters))
        )
    end = len(characters) * 9 // 10
    return Text(characters[:end], characters[end:])


def encode(text: str) -> Int[Tensor, " n"]:
    """The numbers of a text's characters, those of :data:`ALPHABET`.

    >>> encode("0aé1")
    tensor([ 0, 10,  1])
    """
    numbers = {character: number for number, character in enumerate(ALPHABET)}
    return torch.tensor([numbers[c] for c in text if c in numbers], dtype=torch.long)


def _python() -> str:
    try:
        from pydoc_data.topics import topics  # noqa: PLC0415 (large)
    except ImportError as error:
        raise FileError(
            "pydoc_data.topics",
            expected="the texts of Python's help",
            found="none in this installation",
            hint="Name a text file instead.",
        ) from error
    return "\n".join(topics[name] for name in sorted(topics))


def _file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise FileError(
            path,
            expected=f"a text file, or the name {PYTHON!r}",
            found=reason_of(error),
        ) from error
