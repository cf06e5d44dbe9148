"""What the parts of a report of wiring are made of."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from weightspace.report.page import element
from weightspace.report.palette import model_colour, variable


def intro(text: str) -> ET.Element:
    """What a section shows, in words."""
    return element("p", text, class_="intro")


def card(figure: ET.Element, title: str, words: str, above: ET.Element | None = None) -> ET.Element:
    """A figure with its caption, and a legend above if there is one."""
    legends = [] if above is None else [above]
    caption = element("figcaption", element("strong", f"{title}. "), words)
    return element("figure", *legends, figure, caption, class_="card")


def legend(names: Sequence[str]) -> ET.Element:
    """Networks with their colours."""
    return element("ul", *(item(i, name) for i, name in enumerate(names)), class_="legend")


def item(index: int, text: str) -> ET.Element:
    """An entry of a legend."""
    style = f"background:{variable(model_colour(index))}"
    return element("li", element("span", class_="dot", style=style, aria_hidden="true"), text)
