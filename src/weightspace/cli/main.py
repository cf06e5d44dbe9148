"""The command ``weightspace``: parse, run, and say errors without a traceback."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.logging import RichHandler
from tyro.extras import SubcommandApp

from weightspace import __version__
from weightspace.cli.align import align
from weightspace.cli.demo import demo
from weightspace.cli.diff import diff
from weightspace.cli.find import embed, lineage, search
from weightspace.cli.inspect import inspect
from weightspace.cli.merge import merge as merge_networks
from weightspace.cli.models import models
from weightspace.cli.output import printable
from weightspace.cli.places import check_places
from weightspace.cli.predict import predict
from weightspace.cli.prune import prune
from weightspace.cli.relational import analyse
from weightspace.cli.relational_sweep import sweep
from weightspace.cli.render import render
from weightspace.cli.reproduce import reproduce
from weightspace.cli.train import train
from weightspace.cli.view import view
from weightspace.cli.zoo import fit_inrs, info, verify
from weightspace.cli.zoo_change import export, merge, split
from weightspace.cli.zoo_import import import_folder
from weightspace.cli.zoo_make import make
from weightspace.errors import WeightspaceError

BAD_INPUT = 2
"""The exit code of every error that input, files or the person at the keyboard caused."""

DESCRIPTION = "Trained neural networks as data: make zoos of them, learn from their weights."


def app() -> SubcommandApp:
    """Collect the commands."""
    zoo = SubcommandApp()
    zoo.command(make)
    zoo.command(name="fit-inrs")(fit_inrs)
    zoo.command(name="import")(import_folder)
    zoo.command(merge)
    zoo.command(split)
    zoo.command(export)
    zoo.command(info)
    zoo.command(verify)
    relational = SubcommandApp()
    relational.command(sweep)
    relational.command(analyse)
    commands = SubcommandApp()
    commands.command(demo)
    commands.command(zoo, name="zoo", help="Make, import, change and check sets of networks.")
    commands.command(
        relational, name="relational", help="Study how good networks are that graphs wire."
    )
    commands.command(train)
    commands.command(predict)
    commands.command(models)
    commands.command(inspect)
    commands.command(view)
    commands.command(diff)
    commands.command(align)
    commands.command(name="merge")(merge_networks)
    commands.command(prune)
    commands.command(embed)
    commands.command(search)
    commands.command(lineage)
    commands.command(render)
    commands.command(reproduce)
    return commands


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; bad input ends with exit code 2 and one message."""
    for stream in (sys.stdout, sys.stderr):  # names of files may be bytes that are no text
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    console = Console(stderr=True)
    logging.basicConfig(
        level=logging.WARNING,
        format="%(message)s",
        handlers=[RichHandler(console=console, show_path=False, show_time=False)],
    )
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments == ["--version"]:
        print(f"weightspace {__version__}")  # noqa: T201
        return
    try:
        arguments = fetched(arguments)
        check_places(arguments)
        app().cli(prog="weightspace", description=DESCRIPTION, args=arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        console.print(
            "[bold]interrupted[/]: what was done is kept; run the same command again to go on"
        )
        sys.exit(BAD_INPUT)
    except WeightspaceError as error:
        _fail(console, str(error))
    except BrokenPipeError:  # whoever reads has enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _fail(console, f"{error.filename or 'file system'}: {error.strerror or error}")


def fetched(arguments: Sequence[str]) -> list[str]:
    """Arguments with every ``hf://`` address replaced by the path of its copy in the cache.

    Raises:
        FileError: one cannot be fetched.

    >>> fetched(["inspect", "model.pt"])
    ['inspect', 'model.pt']
    """
    if not any(argument.startswith("hf://") for argument in arguments):
        return list(arguments)
    from weightspace.importers.files.hub import local_path

    return [str(local_path(a)) if a.startswith("hf://") else a for a in arguments]


def _fail(console: Console, message: str) -> None:
    console.print("[bold red]error[/]:", end=" ")
    console.print(printable(message), markup=False, emoji=False, highlight=False, soft_wrap=True)
    sys.exit(BAD_INPUT)
