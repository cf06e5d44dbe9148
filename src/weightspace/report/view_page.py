"""The page that shows a network: one file, its script inlined, no request to anywhere.

All that comes from files is text of elements or a string of the data, which stands in an
element that is not run. The page's policy names the hash of its one script and of its one
style sheet, so that the browser refuses every other.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from xml.etree import ElementTree as ET

from weightspace.report.page import element, write_element
from weightspace.report.palette import palette_css
from weightspace.report.view_content import View
from weightspace.report.view_encoding import script_json

SCRIPTS = ("view_data.js", "view_paint.js", "view_graph.js", "view_detail.js", "view_start.js")


def write_view(view: View) -> str:
    """Write the page.

    Args:
        view: its content.

    Returns:
        The HTML document.
    """
    script = '"use strict";\n' + "".join(map(_read, SCRIPTS))
    style = palette_css() + _read("view.css")
    body = element(
        "body",
        _header(view),
        element(
            "main",
            element("section", id="graph", aria_label="Layers", tabindex="-1"),
            element("section", id="detail", aria_label="Chosen layer or neuron"),
            id="parts",
        ),
        *_below(view),
        element("script", script_json(view.as_data()), id="data", type="application/json"),
        element("script", script),
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element(
            "meta", http_equiv="Content-Security-Policy", content=policy(script=script, style=style)
        ),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"{view.title} - weightspace"),
        element("style", style),
    )
    page = element("html", head, body, lang="en")
    return f"<!DOCTYPE html>\n{write_element(page)}\n"


def policy(*, script: str, style: str) -> str:
    """What the browser is allowed: this script, this style sheet, nothing else.

    >>> policy(script="", style="")[:75]
    "default-src 'none'; script-src 'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZ"
    """
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _header(view: View) -> ET.Element:
    facts = [
        element("div", element("dt", name), element("dd", value)) for name, value in view.facts
    ]
    search = element(
        "input", id="search", type="search", placeholder="Find a layer, tensor or axis   ( / )",
        aria_label="Find a layer, tensor or axis", autocomplete="off", spellcheck="false",
    )  # fmt: skip
    return element(
        "header",
        element("h1", view.title),
        element("dl", *facts, id="facts"),
        *[element("p", note, class_="note") for note in view.notes],
        element("noscript", "This page shows the network with a script, which is turned off."),
        element(
            "div",
            search,
            element("button", "?", id="help", type="button", aria_label="Keys", title="Keys"),
            id="bar",
        ),
        element("ul", id="found", hidden="hidden"),
        element("div", id="keys", hidden="hidden"),
    )


def _below(view: View) -> list[ET.Element]:
    marks = element("section", element("h2", "Marked neurons"), id="findings")
    axes = element("section", element("h2", "Symmetries"), id="axes")
    return [marks, axes, *(_table(*table) for table in view.tables)]


def _table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> ET.Element:
    head = element("thead", element("tr", *(element("th", name) for name in header)))
    body = [element("tr", *(element("td", cell) for cell in row)) for row in rows]
    table = element("table", head, element("tbody", *body))
    return element("section", element("h2", title), element("div", table, class_="wide"))


def _read(name: str) -> str:
    return files("weightspace.report").joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
