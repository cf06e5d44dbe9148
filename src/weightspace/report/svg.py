"""Matplotlib figures as SVG elements of a page, in the page's font and theme."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from weightspace.report.page import clean
from weightspace.report.palette import drawn, themed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HALO = "halo"
"""The ``gid`` of text that must stay readable on top of points."""

_HREF = "{http://www.w3.org/1999/xlink}href"
_NUMBERS = {"d", "x", "y", "width", "height", "transform"}
_LONG = re.compile(r"-?\d+\.\d{3,}")


@contextmanager
def page_style(name: str) -> Iterator[None]:
    """Draw in a page's style: whatever the user's own settings of matplotlib are.

    Args:
        name: of the figure; it keeps the identifiers of a page's figures apart.
    """
    import matplotlib as mpl  # noqa: PLC0415 (slow to import)

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(
            {
                "svg.fonttype": "none",
                "svg.hashsalt": name,
                "text.parse_math": False,
                "font.size": 11.5,
                "text.color": drawn("ink"),
                "axes.labelcolor": drawn("muted"),
                "axes.labelsize": 11.5,
                "axes.edgecolor": drawn("faint"),
                "axes.linewidth": 0.8,
                "axes.spines.top": False,
                "axes.spines.right": False,
                "axes.axisbelow": True,
                "grid.color": drawn("line"),
                "xtick.color": drawn("faint"),
                "ytick.color": drawn("faint"),
                "xtick.labelcolor": drawn("muted"),
                "ytick.labelcolor": drawn("muted"),
                "xtick.labelsize": 11,
                "ytick.labelsize": 11,
                "ytick.major.size": 0,
                "lines.solid_capstyle": "round",
            }
        )
        yield


def svg_element(figure: Figure, label: str) -> ET.Element:
    """Turn a figure into an element that stands in a page's own markup.

    Colours become the page's variables and text takes the page's font, so the figure follows
    the reader's theme, and its words can be searched and selected.

    Args:
        figure: drawn in :func:`page_style`.
        label: what is to be seen, for who cannot see it.
    """
    root = ET.fromstring(_svg_text(figure))
    for child in [*root.iter()]:
        child.tag = child.tag.rpartition("}")[2]
        child.text = (child.text or "").strip()
        child.tail = ""
        _tidy(child)
    for child in root.findall("defs[style]"):
        root.remove(child)
    for group in root.iter("g"):
        _share_style(group)
    box = root.get("viewBox", "")
    root.attrib.clear()
    root.attrib.update({"viewBox": box, "role": "img", "aria-label": clean(label)})
    root.set("style", f"max-width:{float(box.split()[2]) * 1.25:.0f}px")
    return root


def _svg_text(figure: Figure) -> bytes:
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # Names may be in any script: the reader's browser has the glyphs, whatever we have.
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    return buffer.getvalue()


def _tidy(child: ET.Element) -> None:
    """Drop what only matplotlib needs, round numbers, and let the page say the font."""
    attributes = child.attrib
    if _HREF in attributes:
        attributes["href"] = attributes.pop(_HREF)
    # Nothing refers to groups, and pages may not hold an id twice.
    if child.tag == "g" and attributes.pop("id", "") == HALO:
        attributes["class"] = HALO
    if "style" in attributes:
        attributes["style"] = themed(re.sub(r"font-family:[^;]*;? ?", "", attributes["style"]))
    for name in _NUMBERS & attributes.keys():
        attributes[name] = _LONG.sub(_short, " ".join(attributes[name].split()))


def _share_style(group: ET.Element) -> None:
    """Say the style of a hundred equal markers once."""
    styles = {child.get("style", "") for child in group}
    if len(group) > 1 and len(styles) == 1 and all(child.tag == "use" for child in group):
        group.set("style", styles.pop())
        for child in group:
            child.attrib.pop("style", None)


def _short(match: re.Match[str]) -> str:
    return f"{float(match.group()):.2f}".rstrip("0").rstrip(".")
