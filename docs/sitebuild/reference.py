"""The reference: a page for every package with all its public names, and all commands."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from sitebuild.links import write_files
from sitebuild.names import Public, documented, leaves, packages
from sitebuild.session import PageError, Session

LOGGER = logging.getLogger(__name__)
LONGEST_VALUE = 60


def register(app: Sphinx) -> None:
    """Write the pages before Sphinx looks for them, and check them when they are read."""
    app.add_directive("commands", Commands)
    app.connect("builder-inited", _write_pages)
    app.connect("env-check-consistency", _check)
    app.connect("autodoc-skip-member", _skip)


def reference_pages(roots: list[str]) -> dict[str, str]:
    """The text of the page of every package, in reStructuredText."""
    pages, elsewhere = documented(roots)
    return {f"{package}.rst": _page(package, pages, elsewhere) for package in roots}


def missing(roots: list[str], described: set[str]) -> Iterator[str]:
    """Say which public names have no documentation, or none on the site.

    Args:
        roots: the packages.
        described: the paths of everything that the site describes.
    """
    pages, _ = documented(roots)
    for items in pages.values():
        for item in items:
            if not item.documentation.strip():
                yield f"{item.path} has no documentation"
            elif item.path not in described and item.kind != "module":
                yield f"{item.path} is not in the reference"


def _page(package: str, pages: dict[str, list[Public]], elsewhere: dict[str, str]) -> str:
    described = (importlib.import_module(package).__doc__ or "").strip()
    parts = [package, "=" * len(package), "", described, "", f".. py:currentmodule:: {package}", ""]
    for item in pages.get(package, []):
        parts += [*_entry(item), ""]
    others = {path: goal for path, goal in elsewhere.items() if path.rpartition(".")[0] == package}
    if others:
        parts += ["Also here:", ""]
        parts += [
            f"- ``{path.rpartition('.')[2]}``: :py:obj:`{goal}`" for path, goal in others.items()
        ]
    return "\n".join(parts) + "\n"


def _entry(item: Public) -> list[str]:
    if item.kind == "module":
        return [f"- ``{item.name}``: {item.documentation.splitlines()[0]}"]
    if item.kind != "data":
        return [f".. auto{item.kind}:: {item.path}"]
    shown = re.sub(r"\s+", " ", repr(item.value))
    value = [f"   :value: {shown}"] if len(shown) <= LONGEST_VALUE and " at 0x" not in shown else []
    text = [f"   {line}".rstrip() for line in item.documentation.splitlines()]
    return [f".. py:data:: {item.name}", *value, "", *text]


def _write_pages(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "reference" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    write_files(folder, reference_pages(packages()))


def _skip(app: Sphinx, kind: str, name: str, value: Any, *rest: Any) -> bool | None:
    """Leave out methods that another library puts into a class, such as scikit-learn."""
    foreign = not (getattr(value, "__module__", None) or "weightspace").startswith("weightspace")
    return True if foreign and callable(value) else None


def _check(app: Sphinx, env: Any) -> None:
    described = set(env.domains["py"].objects)
    for message in missing(packages(), described):
        LOGGER.warning(message)


class Commands(SphinxDirective):
    """The help of every command, as it is printed."""

    def run(self) -> list[nodes.Node]:
        """Ask every command for its help."""
        from weightspace.cli.main import app

        found: list[nodes.Node] = []
        session = Session(self.env.docname)
        for words in leaves(app()):
            name = " ".join(["weightspace", *words])
            section = nodes.section(ids=[nodes.make_id(name)], names=[name])
            section += nodes.title(name, name)
            try:
                text = session.shell([f"{name} --help"]).text
                section += nodes.literal_block(text, text, language="text")
            except PageError as error:
                LOGGER.warning("%s", error, location=self.get_location())
            found.append(section)
        return found
