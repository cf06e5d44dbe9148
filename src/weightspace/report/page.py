"""The skeleton of a page that stands alone: one file, no request to anywhere, no script.

A page is a tree of elements, and only its writing makes text of it. So what comes from
outside is escaped everywhere, and tags are balanced, without anybody's thinking of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from xml.etree import ElementTree as ET

from weightspace.report.palette import palette_css

# The browser is told to refuse every script and request, should one ever get in.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'"
# What HTML forbids: control characters, halves of surrogate pairs, noncharacters.
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


@dataclass(frozen=True)
class Section:
    """A part of a page.

    Args:
        anchor: its id, for links in the page.
        title: its heading, and its entry in the page's navigation.
        content: its elements.
    """

    anchor: str
    title: str
    content: Sequence[ET.Element]


def element(tag: str, *children: ET.Element | str, **attributes: str) -> ET.Element:
    """Build an element. Strings are text, never markup.

    Args:
        tag: the element's name.
        children: elements and text, in order.
        attributes: underscores stand for hyphens; one at the end keeps a name from being a
            Python keyword (``class_``).

    >>> write_element(element("p", "a < b", class_="note"))
    '<p class="note">a &lt; b</p>'
    """
    names = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
    made = ET.Element(tag, {name: clean(value) for name, value in names.items()})
    for child in children:
        if isinstance(child, ET.Element):
            made.append(child)
        elif len(made):
            made[-1].tail = (made[-1].tail or "") + clean(child)
        else:
            made.text = (made.text or "") + clean(child)
    return made


def write_element(made: ET.Element) -> str:
    """The HTML of an element."""
    return ET.tostring(made, encoding="unicode", method="html")


def write_page(
    *,
    title: str,
    header: Sequence[ET.Element],
    sections: Sequence[Section],
    footer: str,
) -> str:
    """Write a whole page.

    Args:
        title: of the browser's tab; the heading belongs to the header.
        header: what stands above the navigation.
        sections: the parts, in order.
        footer: a line at the end.

    Returns:
        The HTML document.
    """
    links = [element("a", section.title, href=f"#{section.anchor}") for section in sections]
    body = element(
        "body",
        element("header", *header),
        element("nav", *links, aria_label="Parts of this page"),
        element("main", *map(_section, sections)),
        element("footer", footer),
    )
    page = element("html", _head(title), body, lang="en")
    return f"<!DOCTYPE html>\n{write_element(page)}\n"


def clean(text: str) -> str:
    r"""Replace characters that no page may hold.

    >>> ascii(clean("a\x00b"))
    "'a\\ufffdb'"
    """
    return _FORBIDDEN.sub("\ufffd", text)


def _head(title: str) -> ET.Element:
    style = palette_css() + files("weightspace.report").joinpath("page.css").read_text("utf-8")
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", style),
    )


def _section(section: Section) -> ET.Element:
    heading = element("h2", section.title, id=f"{section.anchor}-heading")
    return element(
        "section",
        heading,
        *section.content,
        id=section.anchor,
        aria_labelledby=f"{section.anchor}-heading",
    )
