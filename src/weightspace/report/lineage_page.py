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
LONGEST_NAME, LETTER = 70, 7.5
DEEPEST = 260
"""Where the names of the deepest network begin, so that columns have room."""
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
    above: list[int] = []  # the line of the last network of each depth
    for depth, step in lineage.walk(root):
        del above[depth:]
        rows.append(_Row(step, depth, above[-1] if above else None))
        above.append(len(rows) - 1)
    return rows


def _tree(lineage: Lineage, root: Step) -> ET.Element:
    """A family as a picture."""
    rows = _rows(lineage, root)
    indent = min(INDENT, DEEPEST / max(1, *(row.depth for row in rows)))
    drawn = [part for place, row in enumerate(rows) for part in _row(rows, place, indent)]
    label = f"The family of {root.entry.name}, {plural(len(rows), 'network')}"
    return element(
        "svg",
        *drawn,
        viewBox=f"0 0 {WIDTH} {ROW * len(rows)}",
        role="img",
        aria_label=label,
        style=f"max-width:{WIDTH}px",
    )


def _row(rows: list[_Row], place: int, indent: float) -> Iterator[ET.Element]:
    row = rows[place]
    x, y = LEFT + round(indent * row.depth, 1), _middle(place)
    if row.parent is not None:
        up, above = LEFT + round(indent * rows[row.parent].depth, 1), _middle(row.parent)
        path = f"M{up} {above + 6}V{y}H{x - 6}"
        yield element("path", d=path, fill="none", stroke=variable("line"), stroke_width="1.5")
    kin = row.step.kinship
    colour = variable("ink" if kin is None else model_colour(KINDS.index(kin.kind)))
    name = row.step.entry.name
    longest = int(min(LONGEST_NAME, (KIND_AT - x - 12) / LETTER))
    short = name if len(name) <= longest else f"...{name[3 - longest :]}"
    yield element("circle", element("title", name), cx=str(x), cy=str(y), r="5", fill=colour)
    yield _text(short, x + 12, y, "ink")
    if kin is not None:
        yield _text(f"{kin.kind}, {kin.distance:.4f}", KIND_AT, y, "ink")
        yield _text(REASONS[row.step.reason], REASON_AT, y, "muted")


def _middle(line: int) -> int:
    return ROW * line + ROW // 2


def _text(text: str, x: float, y: float, colour: str) -> ET.Element:
    return element("text", text, x=str(x), y=str(y + 4), font_size="13", fill=variable(colour))
