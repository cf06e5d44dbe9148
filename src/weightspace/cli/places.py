"""Where commands are to write: looked at before they work, not after."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path

from weightspace.errors import DataError, FileError, reason_of

OPTIONS = ("--out", "--json")
"""The options of all commands that name what is written."""
FILES = {"align", "merge", "prune", "predict", "embed", "view", "diff", "lineage"}
"""Commands whose ``--out`` is a file."""
FOLDERS = {"train", "demo", "zoo", "render", "reproduce"}
"""Commands whose ``--out`` is a folder."""
BESIDE = {"prune": ("pruned.safetensors", ".json"), "embed": ("vectors.parquet", ".names.json")}
"""What ``--out`` is if not given, and how the name of a second file beside it ends."""


def check_places(arguments: Sequence[str]) -> None:
    """Check that what ``--out`` and ``--json`` name can be written.

    Nothing is left behind and no folder is made; a disk that is full later is still an error then.

    Args:
        arguments: a command and its options, as they were typed.

    Raises:
        FileError: one cannot be written.
        DataError: two name the same file.

    >>> check_places(["align", "a.pt", "b.pt", "--out", "c.safetensors"])
    """
    command = arguments[0] if arguments else ""
    places = _named(arguments)
    for option, path in places.items():
        is_file = option == "--json" or command in FILES
        if is_file and path.is_dir():
            raise FileError(
                f"{option} {path}",
                expected="a file to write",
                found="a folder",
                hint=f"Name a file in it, such as {path / 'results.json'}."
                if option == "--json"
                else "Name a file in it.",
            )
        if option == "--out" and command in FOLDERS and path.is_file():
            raise FileError(f"{option} {path}", expected="a folder to write", found="a file")
        _try(option, path)
    _check_apart(command, places)


def _check_apart(command: str, places: dict[str, Path]) -> None:
    """Check that the figures do not overwrite a result."""
    if "--json" not in places:
        return
    own = [places["--out"]] if "--out" in places else []
    if command in BESIDE:
        name, ending = BESIDE[command]
        own.append(places.get("--out", Path(name)).with_suffix(ending))
    if places["--json"].resolve() in [path.resolve() for path in own]:
        raise DataError(
            "--json",
            expected="a file of its own",
            found=f"{places['--json']}, which the results are written to",
        )


def _named(arguments: Sequence[str]) -> dict[str, Path]:
    """The paths behind the options; the last counts, as in parsing."""
    found = {}
    for place, argument in enumerate(arguments):
        option, equals, value = argument.partition("=")
        if option not in OPTIONS:
            continue
        if not equals and place + 1 < len(arguments):
            value = arguments[place + 1]
        if value and not value.startswith("-"):
            found[option] = Path(value)
    return found


def _try(option: str, path: Path) -> None:
    """Make a file in the nearest folder that is there, and take it away again."""
    folder = path if path.is_dir() else path.parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    trial = folder / f".{secrets.token_hex(6)}.tmp"
    try:
        trial.touch(exist_ok=False)
        trial.unlink()
    except OSError as error:
        raise FileError(
            f"{option} {path}",
            expected="a place that can be written",
            found=f"{folder}: {reason_of(error)}",
            hint="Choose another place.",
        ) from error
