"""Folders of checkpoints for commands: the index with a progress bar, and what was skipped."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from weightspace.cli.output import printable, say

if TYPE_CHECKING:
    from weightspace.find import Index, Network, Problem
    from weightspace.graph import GraphSpec

T = TypeVar("T")
SHOWN = 10


def open_index(
    folder: Path,
    *,
    index: Path | None,
    activation: str | None,
    module: str | None = None,
    inputs: str | None = None,
) -> Index:
    """Bring the index of a folder up to date, and say what was skipped.

    Raises:
        DataError: there is no network in the folder.
    """
    from weightspace.errors import DataError, counted
    from weightspace.find import Folder, Index

    specs = module_specs(module, inputs)
    source = Folder(folder, activation=activation, specs=specs)
    found = Index.of(source, path=index, track=progress("reading", "files"))
    say(f"{counted(len(found), 'network')} in {folder}; {found.changes}")
    show_problems(found.problems)
    unknown = [entry for entry in found.entries if not entry.known]
    if unknown:
        say(
            f"the structure of {counted(len(unknown), 'network')}, such as {unknown[0].name}, is "
            "not known from names and shapes: neurons of these are not reordered (give --module)"
        )
    if not len(found):
        raise DataError(
            folder,
            expected="at least one checkpoint of a network",
            found=f"none ({len(found.problems)} files could not be read)",
        )
    return found


def module_specs(module: str | None, inputs: str | None) -> tuple[GraphSpec, ...]:
    """The spec of a module that a person names, or none."""
    if module is None:
        return ()
    from weightspace.cli.modules import example_tensors, import_module
    from weightspace.importers import module_spec

    return (module_spec(import_module(module), example_tensors(inputs)),)


def read_query(query: str, *, activation: str | None, specs: tuple[GraphSpec, ...]) -> Network:
    """Read the network that ``FILE`` or ``FILE:NAME`` stands for.

    Raises:
        FileError: there is no such file or network.
    """
    from weightspace.errors import FileError
    from weightspace.find import Folder, read_one

    path, name = Path(query), ""
    if not path.exists() and ":" in query:
        file, _, name = query.rpartition(":")
        path = Path(file)
    if not path.is_file():
        raise FileError(
            query, expected="a checkpoint file", found="a folder" if path.is_dir() else "none"
        )
    return read_one(Folder(path, activation=activation, specs=specs), name)


def show_problems(problems: Iterable[Problem]) -> None:
    """Say which files were skipped, on standard error."""
    listed = list(problems)
    for problem in listed[:SHOWN]:
        sys.stderr.write(f"skipped: {printable(str(problem))}\n")
    if len(listed) > SHOWN:
        sys.stderr.write(f"skipped: {len(listed) - SHOWN} more; --json FILE lists all\n")


def progress(doing: str, unit: str) -> Callable[[Iterable[T]], Iterator[T]]:
    """Show how far something is that is done one by one."""

    def track(things: Iterable[T]) -> Iterator[T]:
        from weightspace.zoo.progress import network_progress

        listed = list(things)
        if not listed:
            return
        with network_progress(unit) as bar:
            yield from bar.track(listed, description=doing)

    return track
