"""Links of Markdown files that people read in the repository, and here on the site."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s#]+)(#[^()\s]*)?\)")
PAGES = {
    "README.md": "/index.md",
    "CONTRIBUTING.md": "/project/contributing.md",
    "CHANGELOG.md": "/project/changelog.md",
}
"""Files of the repository that are pages of the site, included there."""


def register(app: Sphinx) -> None:
    """Rewrite links as files are read, and make a page of every experiment."""
    app.connect("builder-inited", _write_pages)
    app.connect("source-read", _read)
    app.connect("include-read", _include)


def rewritten(text: str, file: Path, root: Path) -> str:
    """Point links of a file to where their targets are on the site.

    Args:
        text: of the file.
        file: its path.
        root: of the repository; pages are in its folder ``docs``.

    Returns:
        The text; a link to what is no page becomes a download, one to a folder plain text.
    """

    def link(match: re.Match[str]) -> str:
        label, target, anchor = match.group(1), match.group(2), match.group(3) or ""
        goal = (file.parent / target).resolve()
        if "://" in target or target.startswith("/") or not goal.is_relative_to(root):
            return match.group()
        place = goal.relative_to(root)
        page = page_of(place)
        if page is not None:
            return f"[{label}]({page}{anchor})"
        if goal.is_dir():
            return f"{label.strip('`')} (`{place}`)"
        if goal.is_file() and place.parts[0] != "docs":
            return f"{{download}}`{label.strip('`')} </../{place}>`"
        return match.group()

    return LINK.sub(link, text)


def page_of(place: Path) -> str | None:
    """The page that a file of the repository is on the site, if it is one."""
    if str(place) in PAGES:
        return PAGES[str(place)]
    if place.parts[0] == "docs" and place.suffix == ".md":
        return "/" + "/".join(place.parts[1:])
    if place.parts[0] == "experiments" and len(place.parts) <= 3 and place.name == "README.md":
        return f"/results/generated/{place.parts[1]}.md"
    return None


def _write_pages(app: Sphinx) -> None:
    root, folder = Path(app.srcdir).parent, Path(app.srcdir) / "results" / "generated"
    folder.mkdir(exist_ok=True, parents=True)
    wanted = {}
    for readme in sorted((root / "experiments").glob("*/README.md")):
        place = readme.relative_to(root)
        wanted[f"{readme.parent.name}.md"] = f"```{{include}} ../../../{place}\n```\n"
    write_files(folder, wanted)


def write_files(folder: Path, wanted: dict[str, str]) -> None:
    """Make a folder of generated files what it should be; equal files keep their times."""
    for name, text in wanted.items():
        path = folder / name
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)
    for path in folder.iterdir():
        if path.name not in wanted and not path.name.startswith("_"):
            path.unlink()


def _read(app: Sphinx, page: str, content: list[str]) -> None:
    path = Path(app.env.doc2path(page))
    if path.suffix == ".md":
        content[0] = rewritten(content[0], path, Path(app.srcdir).parent)


def _include(app: Sphinx, place: Path, page: Any, content: list[str]) -> None:
    path = (Path(app.srcdir) / place).resolve()
    if path.suffix == ".md":
        content[0] = rewritten(content[0], path, Path(app.srcdir).parent)
