"""What commands print and write."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from weightspace.errors import FileError, reason_of


def show_table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table. Text from files is printed as it is, never as markup."""
    from rich.text import Text

    table = Table(title=title, title_justify="left", title_style="bold")
    for name in header:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    Console().print(table)


def show_figures(title: str, figures: Mapping[str, object]) -> None:
    """Print figures by name, numbers with four digits."""
    show_table(title, ["", ""], [[name, _shown(value)] for name, value in figures.items()])


def _shown(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_shown, value))
    if value is None:
        return "not known"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def say(message: str) -> None:
    """Print a line for people."""
    Console().print(message, markup=False, highlight=False, soft_wrap=True)


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
