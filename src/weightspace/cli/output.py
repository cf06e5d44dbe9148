"""What commands print and write."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from weightspace.errors import FileError, reason_of


def show_table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table. Text from files is printed as it is, never as markup."""
    from rich.text import Text

    table = Table(title=Text(printable(title), style="bold"), title_justify="left")
    for name in header:
        table.add_column(Text(printable(name)), overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(str(cell))) for cell in row))
    Console().print(table)


def show_figures(title: str, figures: Mapping[str, object]) -> None:
    """Print what is known of figures under a title, their keys as words.

    >>> show_figures("merged", {"loss_of_a": 0.25, "exact": True, "barrier": None, "neurons": 1200})
    merged
      loss of a  0.25
      exact      yes
      neurons    1,200
    """
    known = {key.replace("_", " "): value for key, value in figures.items() if value is not None}
    width = max(map(len, known), default=0)
    lines = [f"  {words:{width}}  {_shown(value)}" for words, value in known.items()]
    say("\n".join([title, *lines]))


def _shown(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_shown, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def say(message: str) -> None:
    """Print a line for people."""
    Console().print(printable(message), markup=False, emoji=False, highlight=False, soft_wrap=True)


def printable(text: str) -> str:
    r"""Text whose characters cannot steer a terminal: names of files may hold anything.

    >>> print(printable("a\x1b[31mb\u202ec"))
    a\x1b[31mb\u202ec
    """
    return "".join(
        c
        if c in "\n\t" or unicodedata.category(c) not in _STEERING
        else c.encode("unicode_escape").decode()
        for c in text
    )


_STEERING = {"Cc", "Cf", "Cs"}
"""Controls, marks that turn the direction of writing among them, and bytes that are no text."""


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on a terminal that work goes on, and for how long, until the block ends."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    console = Console(stderr=True)
    with Progress(
        *columns,
        console=console,
        transient=True,
        redirect_stdout=False,
        disable=not console.is_terminal,
    ) as progress:
        progress.add_task(printable(what), total=None)
        yield


def write_json(path: Path, data: Any) -> None:
    """Write JSON, all or nothing.

    Raises:
        FileError: the file cannot be written.
    """
    write_text(path, json.dumps(data, indent=2, allow_nan=True) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a file beside its place, then move it there.

    Raises:
        FileError: the file cannot be written.
    """
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file beside its place, then move it there.

    Raises:
        FileError: the file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise FileError(
            path,
            expected="a place that can be written",
            found=reason_of(error),
            hint="Free some space or choose another place.",
        ) from error


def make_folder(path: Path) -> None:
    """Make a folder that files will be written to, and those above it.

    Raises:
        FileError: it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            path, expected="a folder, or a place for one", found=reason_of(error)
        ) from error
