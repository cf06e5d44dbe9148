"""Figures of classes: a confusion matrix, a map, and the signs that tell classes apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import numpy as np
import numpy.typing as npt
from jaxtyping import Float, Int

from weightspace.report.figures import new_figure
from weightspace.report.page import element
from weightspace.report.palette import class_colour, drawn, variable
from weightspace.report.svg import HALO, page_style, svg_element
from weightspace.report.wording import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = npt.NDArray[Any]

MARKERS = {"o": 1.0, "s": 0.92, "^": 1.1, "D": 0.85, "v": 1.1, "P": 1.15, "X": 1.15, "<": 1.1}
MARKERS |= {">": 1.1, "*": 1.5}
"""A class's second sign besides its colour, and the size at which they look equally large.

Ten of them make a hundred classes distinct.
"""

_MOST_NUMBERED = 14  # classes: the cells of more are too small for numbers
_MOST_NAMED = 30
_SHADES = 16
_STRONG = 13  # from this shade on, numbers stand out in the card's colour
_AROUND = 9  # points
_FEWEST_NAMED = 3  # points


def confusion_figure(
    confusion: Int[Array, "classes classes"], classes: Sequence[str], *, name: str, label: str
) -> ET.Element:
    """A confusion matrix; a cell's strength is its share of its row.

    What is right and what is wrong differ in hue and in place.

    Args:
        confusion: rows are true classes, columns predicted ones.
        classes: their names.
        name: of the figure, unique in the page.
        label: what is to be seen.
    """
    with page_style(name):
        number = len(classes)
        figure, axes = new_figure(430, 430)
        axes.set(xlim=(-0.5, number - 0.5), ylim=(number - 0.5, -0.5), aspect="equal")
        axes.spines[:].set_visible(True)
        axes.spines[:].set_color(drawn("line"))
        shares = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
        shades = np.ceil(_SHADES * np.sqrt(shares)).astype(int)
        right = np.eye(number, dtype=bool)
        _draw_cells(axes, np.where(right, shades, 0), "right")
        _draw_cells(axes, np.where(right, 0, shades), "wrong")
        if number <= _MOST_NUMBERED:
            _draw_numbers(axes, confusion, shades)
        _name_classes(axes, classes)
        axes.set(xlabel="predicted class", ylabel="true class")
        return svg_element(figure, label)


def map_figure(
    points: Float[Array, "n 2"],
    labels: Int[Array, "n"],
    classes: Sequence[str],
    *,
    name: str,
    label: str,
) -> ET.Element:
    """Points in the plane with the colours, markers and, where there is room, names of classes.

    Args:
        points: where they are.
        labels: the class of each.
        classes: their names.
        name: of the figure, unique in the page.
        label: what is to be seen.
    """
    with page_style(name):
        figure, axes = new_figure(400, 340)
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
        size = float(np.clip(130 / np.sqrt(max(len(points), 1)), 4, 8))
        for index in range(len(classes)):
            mine = points[labels == index]
            marker = class_marker(index)
            axes.plot(
                *mine.T,
                linestyle="",
                marker=marker,
                markersize=size * MARKERS[marker],
                color=drawn(class_colour(index)),
                markeredgecolor=drawn("card"),
                markeredgewidth=0.5,
                clip_on=False,
            )
        if len(classes) <= _MOST_NUMBERED:
            _name_islands(axes, points, labels, classes)
        return svg_element(figure, label)


def class_marker(index: int) -> str:
    """The marker of a class; with its colour it is one in a hundred."""
    return [*MARKERS][(index + index // len(MARKERS)) % len(MARKERS)]


def class_swatch(index: int) -> ET.Element:
    """The colour and marker of a class, for a legend."""
    from matplotlib.markers import MarkerStyle  # noqa: PLC0415 (slow to import)
    from matplotlib.transforms import Affine2D  # noqa: PLC0415 (slow to import)

    marker = MarkerStyle(class_marker(index))
    size = MARKERS[class_marker(index)]
    flip = Affine2D().scale(size, -size)
    path = marker.get_path().transformed(marker.get_transform() + flip)
    rings = [np.asarray(ring) for ring in path.to_polygons()]
    corners = ["L".join(f"{x:.2f} {y:.2f}" for x, y in ring) for ring in rings]
    shape = element("path", d="".join(f"M{ring}Z" for ring in corners))
    shape.set("style", f"fill:{variable(class_colour(index))}")
    return element("svg", shape, class_="swatch", viewBox="-.72 -.72 1.44 1.44", aria_hidden="true")


def _draw_cells(axes: Axes, shades: Int[Array, "classes classes"], colour: str) -> None:
    """One path for all cells of a shade: few elements, however many classes."""
    from matplotlib.patches import PathPatch  # noqa: PLC0415 (slow to import)
    from matplotlib.path import Path  # noqa: PLC0415 (slow to import)

    half = 0.47 if len(shades) <= _MOST_NAMED else 0.5
    square = half * np.array([(-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1)])
    for shade in np.unique(shades[shades > 0]):
        rows, columns = np.nonzero(shades == shade)
        centres = np.stack([columns, rows], axis=-1)
        cells = [Path(centre + square, closed=True) for centre in centres]
        path = Path.make_compound_path(*cells)
        axes.add_patch(
            PathPatch(path, color=drawn(colour), alpha=min(shade / _SHADES, 1), linewidth=0)
        )


def _draw_numbers(axes: Axes, confusion: Int[Array, "c c"], shades: Int[Array, "c c"]) -> None:
    size = min(11.5, 130 / len(confusion), 80 / len(str(confusion.max())))
    for row, column in np.argwhere(confusion > 0):
        strong = shades[row, column] >= _STRONG
        axes.text(
            column,
            row,
            str(confusion[row, column]),
            ha="center",
            va="center_baseline",
            fontsize=size,
            color=drawn("reverse" if strong else "ink"),
        )


def _name_classes(axes: Axes, classes: Sequence[str]) -> None:
    names = [shortened(name) for name in classes]
    step = -(-len(names) // _MOST_NAMED)
    places = range(0, len(names), step)
    shown = [names[place] for place in places]
    size = min(11.0, 330 / len(shown))
    upright = len(shown) <= _MOST_NUMBERED and max(map(len, shown)) <= 3
    axes.set_yticks(places, shown, fontsize=size)
    axes.set_xticks(places, shown, fontsize=size, rotation=0 if upright else 90)
    axes.tick_params(length=0 if step == 1 else 2)


def _name_islands(
    axes: Axes, points: Float[Array, "n 2"], labels: Int[Array, "n"], classes: Sequence[str]
) -> None:
    """Write a class's name in its middle, where most points around are of that class."""
    for index, name in enumerate(classes):
        mine = points[labels == index]
        if len(mine) < _FEWEST_NAMED:
            continue
        distances = np.linalg.norm(mine[:, None] - mine, axis=-1)
        middle = mine[np.median(distances, axis=1).argmin()]
        around = np.linalg.norm(points - middle, axis=-1).argsort()[:_AROUND]
        if np.mean(labels[around] == index) > 0.5:
            text = axes.text(middle[0], middle[1], shortened(name), weight="bold", gid=HALO)
            text.set_fontsize(14)
            text.set(ha="center", va="center")
