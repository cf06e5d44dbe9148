"""Running the code and the commands of one page, in one process and one folder."""

from __future__ import annotations

import contextlib
import io
import linecache
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import traceback
import types
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

PROGRESS = re.compile(r"^Epoch .*it/s.*\n(?: .*\n)*", re.MULTILINE)
"""What a progress bar leaves behind where no terminal is."""
WIDTH = "92"
"""Columns of what commands print: as wide as a page."""


class PageError(Exception):
    """What stands on a page did not run, or a command did not end as the page says."""


@dataclass(frozen=True)
class Output:
    """What a block left behind.

    Args:
        text: what was printed.
        figures: what was drawn with matplotlib, as SVG elements.
    """

    text: str
    figures: tuple[str, ...] = ()


class Session:
    """A page's names and its folder: every block sees what those above it made.

    Args:
        page: the page's name.
    """

    def __init__(self, page: str) -> None:
        self.page = page
        self.folder = Path(tempfile.mkdtemp(prefix="page-")).resolve()
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        # A module of its own, so that classes of the page have a home that Python can look up.
        self._module = types.ModuleType("page_" + page.replace("/", "_").replace("-", "_"))
        sys.modules[self._module.__name__] = self._module
        self._blocks = 0

    def python(self, code: str, *, label: str = "figure") -> Output:
        """Run a block of Python.

        Args:
            code: the block.
            label: what its figures show, for who cannot see them.

        Raises:
            PageError: it raised an error.
        """
        self._blocks += 1
        name = f"<{self.page}, block {self._blocks}>"
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)

        def run() -> tuple[str, ...]:
            from weightspace.report.svg import page_style

            with page_style(f"{self.page}-{self._blocks}"):
                exec(compile(code, name, "exec"), self._module.__dict__)
                return _drawn(label)

        printed, figures = self._captured(run)
        return Output(printed, figures)

    def shell(self, lines: list[str], *, exit_code: int = 0) -> Output:
        """Run commands; `weightspace` in this process, which saves starting Python.

        Args:
            lines: one command each; a backslash at the end joins lines.
            exit_code: what the last command ends with.

        Raises:
            PageError: a command ended otherwise.
        """
        commands = "\n".join(lines).replace("\\\n", " ").splitlines()
        found = [self._command(line) for line in commands if line.strip()]
        for line, (text, code) in zip(commands, found, strict=True):
            wanted = exit_code if line == commands[-1] else 0
            if code != wanted:
                raise PageError(f"{line!r} ended with {code}, not {wanted}:\n{text}")
        return Output("\n".join(text.rstrip() for text, _ in found if text.strip()))

    def _command(self, line: str) -> tuple[str, int]:
        words = shlex.split(line)
        if words[0] != "weightspace":
            run = subprocess.run(
                line, shell=True, cwd=self.folder, capture_output=True, text=True, check=False
            )
            return self._shown(run.stdout + run.stderr), run.returncode
        codes: list[int] = []
        errors = io.StringIO()

        def command() -> None:
            from weightspace.cli.main import main

            try:
                main(words[1:])
                codes.append(0)
            except SystemExit as end:
                codes.append(int(end.code or 0))

        printed, _ = self._captured(command, errors)
        # Progress is for people who wait; messages of a failed command are its result.
        return printed + (self._shown(errors.getvalue()) if codes[0] else ""), codes[0]

    def _captured(self, run: Callable[[], T], errors: io.StringIO | None = None) -> tuple[str, T]:
        stream, errors = io.StringIO(), io.StringIO() if errors is None else errors
        try:
            with (
                contextlib.chdir(self.folder),
                _environment(COLUMNS=WIDTH),
                contextlib.redirect_stdout(stream),
                contextlib.redirect_stderr(errors),
            ):
                result = run()
        except Exception as error:
            report = "".join(traceback.format_exception(error))
            raise PageError(f"{report}\nprinted before:\n{stream.getvalue()}") from error
        return self._shown(stream.getvalue()), result

    def _shown(self, text: str) -> str:
        """Paths as someone sees them who works in the page's folder."""
        text = PROGRESS.sub("", text)
        return text.replace(f"{self.folder}{os.sep}", "").replace(str(self.folder), ".")


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _drawn(label: str) -> tuple[str, ...]:
    """Every open figure, which is closed."""
    import xml.etree.ElementTree as ET

    import matplotlib.pyplot as plt

    from weightspace.report.svg import svg_element

    elements = []
    for number in plt.get_fignums():
        element = svg_element(plt.figure(number), label)
        elements.append(ET.tostring(element, encoding="unicode"))
    plt.close("all")
    return tuple(elements)
