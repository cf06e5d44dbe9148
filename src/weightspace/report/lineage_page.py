"""The page of a lineage: which networks came from which, as trees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from xml.etree import ElementTree as ET

from weightspace import __version__
from weightspace.find import KINDS, Lineage, Step
from weightspace.report.page import Section, element, write_page
from weightspace.report.palette import model_colour, variable
from weightspace.report.wording import plural

ROW, INDENT, WIDTH, LEFT = 28, 26, 1060, 12
KIND_AT, REASON_AT = 620, 850
LONGEST_NAME = 70
REASONS = {
    "proved": "proved by zeros or rounding",
    "peaks": "likely: its weights stand out",
    "centre": "guessed from the tree",
    "undecided": "undecided",
    "": "",
}


def lineage_page(lineage: Lineage, *, source: str) -> str:
    """The HTML of a lineage.

    Args:
        lineage: to be shown.
        source: the folder.
    """
    families = [root for root in lineage.roots if lineage.size(root.entry) > 1]
    alone = [root for root in lineage.roots if lineage.size(root.entry) == 1]
    sections = []
    if families:
        cards = [element("figure", _tree(lineage, root), class_="card") for root in families]
        sections.append(Section("families", "Families", [_intro(), *cards]))
    if alone:
        names = [element("li", root.entry.name) for root in alone]
        sections.append(Section("alone", "Without kin", [element("ul", *names, class_="card")]))
    lead = (
        f"{plural(len(lineage.steps), 'network')} of {source}: "
        f"{len(families)} with kin are roots of families, {len(alone)} are without kin."
    )
    return write_page(
        title="Which networks came from which",
        header=[
            element("p", "weightspace lineage", class_="kicker"),
            element("h1", "Which networks came from which"),
            element("p", lead, class_="lead"),
        ],
        sections=sections,
        footer=f"Written by weightspace {__version__}. This page is one file and loads nothing.",
    )


def _intro() -> ET.Element:
    text = (
        "Each network hangs below the one that is nearest to it after alignment. The number is "
        "their distance: 0 for copies, about 1 for unrelated networks. The last column says how "
        "it is known which of the two was first."
    )
    return element("p", text, class_="intro")


class _Row(NamedTuple):
    """A line of a tree.

    Args:
        step: the network.
        depth: how many steps it is from the root.
        parent: the line of its parent.
    """

    step: Step
    depth: int
    parent: int | None


def _rows(lineage: Lineage, root: Step) -> list[_Row]:
    rows: list[_Row] = []

    def visit(step: Step, depth: int, parent: int | None) -> None:
        rows.append(_Row(step, depth, parent))
        here = len(rows) - 1
        for child in lineage.children(step.entry):
            visit(child, depth + 1, here)

    visit(root, 0, None)
    return rows


def _tree(lineage: Lineage, root: Step) -> ET.Element:
    """A family as a picture."""
    rows = _rows(lineage, root)
    drawn = [part for place, row in enumerate(rows) for part in _row(rows, place, row)]
    label = f"The family of {root.entry.name}, {plural(len(rows), 'network')}"
    return element(
        "svg",
        *drawn,
        viewBox=f"0 0 {WIDTH} {ROW * len(rows)}",
        role="img",
        aria_label=label,
        style=f"max-width:{WIDTH}px",
    )


def _row(rows: list[_Row], place: int, row: _Row) -> Iterator[ET.Element]:
    x, y = _place(row.depth, place)
    if row.parent is not None:
        up, above = _place(rows[row.parent].depth, row.parent)
        path = f"M{up} {above + 6}V{y}H{x - 6}"
        yield element("path", d=path, fill="none", stroke=variable("line"), stroke_width="1.5")
    kin = row.step.kinship
    colour = variable("ink" if kin is None else model_colour(KINDS.index(kin.kind)))
    name = row.step.entry.name
    short = name if len(name) <= LONGEST_NAME else f"...{name[3 - LONGEST_NAME :]}"
    yield element("circle", element("title", name), cx=str(x), cy=str(y), r="5", fill=colour)
    yield _text(short, x + 12, y, "ink")
    if kin is not None:
        yield _text(f"{kin.kind}, {kin.distance:.4f}", KIND_AT, y, "ink")
        yield _text(REASONS[row.step.reason], REASON_AT, y, "muted")


def _place(depth: int, line: int) -> tuple[int, int]:
    return LEFT + INDENT * depth, ROW * line + ROW // 2


def _text(text: str, x: int, y: int, colour: str) -> ET.Element:
    return element("text", text, x=str(x), y=str(y + 4), font_size="13", fill=variable(colour))
