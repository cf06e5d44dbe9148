"""Figures of a study of wiring: the plane of clustering and path length, and curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from weightspace.relational.analysis import NetworkAnalysis
from weightspace.relational.analysis.analysis import Cell
from weightspace.relational.analysis.curves import Curve, Measure
from weightspace.relational.analysis.sweet_spot import Box
from weightspace.report.figures import new_figure
from weightspace.report.palette import drawn, model_colour
from weightspace.report.svg import page_style, svg_element

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = npt.NDArray[Any]

CLUSTERING, PATH_LENGTH = "clustering C", "path length L"

_SHADES = 10
_STRONG = 7  # from this shade on, numbers stand out in the card's colour
_MOST_CURVES = 5
_ROOM = 0.25  # of a bin, around all bins


@dataclass(frozen=True)
class Series:
    """A line of a network over a count.

    Args:
        x: ascending.
        y: values.
        colour: the palette's name of it.
        low: lower ends of a band around the line; may be empty.
        high: upper ends.
    """

    x: Sequence[float]
    y: Sequence[float]
    colour: str
    low: Sequence[float] = ()
    high: Sequence[float] = ()


def heatmap_figure(network: NetworkAnalysis, *, name: str, label: str) -> ET.Element:
    """Mean errors of bins: blue below the complete graph's (or the average), orange above.

    Args:
        network: what is shown.
        name: of the figure, unique in the page.
        label: what is to be seen.
    """
    with page_style(name):
        figure, axes = new_figure(480, 430)
        level = reference_level(network)
        largest = max((abs(cell.error - level) for cell in network.cells), default=1) or 1
        _draw_shades(axes, network, level, largest)
        for cell in network.cells:
            _write_error(axes, cell, level, largest)
        _frame(axes, network.cells)
        spot = network.sweet_spots.published
        if spot is not None:
            _outline(axes, spot.box, network)
        axes.set(xlabel=CLUSTERING, ylabel=PATH_LENGTH)
        return svg_element(figure, label)


def reference_level(network: NetworkAnalysis) -> float:
    """The error that colours of a heatmap start from."""
    return network.average if network.complete is None else network.complete.error


def u_figure(network: NetworkAnalysis, along: Measure, *, name: str, label: str) -> ET.Element:
    """Error over one measure, a curve for each band of the other; dots are bins.

    Args:
        network: what is shown; of curves along the measure, those of the most graphs.
        along: the measure that varies.
        name: of the figure, unique in the page.
        label: what is to be seen.
    """
    chosen = shown_curves(network, along)
    with page_style(name):
        figure, axes = new_figure(420, 300)
        axes.grid(axis="y")
        for index, curve in enumerate(chosen):
            colour = drawn(model_colour(index))
            x = np.linspace(*curve.span, 60)
            axes.plot(x, np.polyval(curve.coefficients, x), color=colour, linewidth=2)
            points = _bins_along(network, curve)
            axes.plot(*points.T, color=colour, marker="o", markersize=4, linestyle="")
        axes.set(xlabel=CLUSTERING if along == "clustering" else PATH_LENGTH, ylabel="error, %")
        return svg_element(figure, label)


def shown_curves(network: NetworkAnalysis, along: Measure) -> list[Curve]:
    """The curves of the most graphs, by the measure that is held."""
    own = [curve for curve in network.curves if curve.along == along]
    most = sorted(own, key=lambda curve: -curve.graphs)[:_MOST_CURVES]
    return sorted(most, key=lambda curve: curve.at)


def spots_figure(boxes: Sequence[Box], shared: Box | None, *, name: str, label: str) -> ET.Element:
    """The sweet spots of all networks in one plane, and what they share.

    Args:
        boxes: one for each network, in the order of their colours.
        shared: filled, if there is such a box.
        name: of the figure, unique in the page.
        label: what is to be seen.
    """
    from matplotlib.patches import Rectangle  # noqa: PLC0415 (slow to import)

    with page_style(name):
        figure, axes = new_figure(480, 340)
        axes.grid()
        if shared is not None:
            corner, width, height = _rectangle(shared)
            axes.add_patch(
                Rectangle(corner, width, height, color=drawn("accent"), alpha=0.25, linewidth=0)
            )
        for index, box in enumerate(boxes):
            corner, width, height = _rectangle(box)
            shift = 0.006 * (index - len(boxes) / 2)  # boxes with an edge in common stay apart
            axes.add_patch(
                Rectangle(
                    (corner[0] + shift, corner[1] + 3 * shift),
                    width,
                    height,
                    fill=False,
                    edgecolor=drawn(model_colour(index)),
                    linewidth=2,
                )
            )
        ends = np.array([[*box.clustering, *box.path_length] for box in boxes])
        axes.set_xlim(min(0.0, ends[:, 0].min()), max(0.8, ends[:, 1].max() + 0.05))
        axes.set_ylim(1, max(3.0, ends[:, 3].max() + 0.15))
        axes.set(xlabel=CLUSTERING, ylabel=PATH_LENGTH)
        return svg_element(figure, label)


def series_figure(
    series: Sequence[Series], *, name: str, label: str, xlabel: str, ylabel: str, log: bool
) -> ET.Element:
    """Lines over a count, with bands around them.

    Args:
        series: at least one.
        name: of the figure, unique in the page.
        label: what is to be seen.
        xlabel: what is counted.
        ylabel: what is measured.
        log: whether the count is drawn by its logarithm.
    """
    with page_style(name):
        figure, axes = new_figure(420, 280)
        axes.grid(axis="y")
        for own in series:
            colour = drawn(own.colour)
            if len(own.low):
                axes.fill_between(own.x, own.low, own.high, color=colour, alpha=0.12, linewidth=0)
            axes.plot(own.x, own.y, color=colour, linewidth=2)
        if log:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter("")
        axes.set(xlabel=xlabel, ylabel=ylabel)
        return svg_element(figure, label)


def selection_figure(
    rows: Sequence[tuple[str, float, float, float]], *, name: str, label: str
) -> ET.Element:
    """Errors against the complete graph's: as chosen, held out, and of all graphs.

    Args:
        rows: name of the network and the three differences, in percentage points.
        name: of the figure, unique in the page.
        label: what is to be seen.
    """
    with page_style(name):
        figure, axes = new_figure(480, 80 + 34 * len(rows))
        axes.grid(axis="x")
        axes.axvline(0, color=drawn("muted"), linewidth=1)
        for place, (_, seen, held_out, average) in enumerate(rows):
            axes.plot([seen, average], [place] * 2, color=drawn("line"), linewidth=3, zorder=1)
            for value, colour, marker in (
                (seen, "wrong", "o"),
                (held_out, "right", "s"),
                (average, "muted", "|"),
            ):
                axes.plot(
                    value, place, color=drawn(colour), marker=marker, markersize=8, linestyle=""
                )
        axes.set_yticks(range(len(rows)), [row[0] for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel("error less that of the complete graph, percentage points")
        return svg_element(figure, label)


def _draw_shades(axes: Axes, network: NetworkAnalysis, level: float, largest: float) -> None:
    """One path for all bins of a shade."""
    from matplotlib.patches import PathPatch  # noqa: PLC0415 (slow to import)
    from matplotlib.path import Path  # noqa: PLC0415

    squares: dict[tuple[str, int], list[Path]] = {}
    for cell in network.cells:
        colour = "right" if cell.error < level else "wrong"
        left, right = network.grid.clustering[cell.column : cell.column + 2]
        low, high = network.grid.path_length[cell.row : cell.row + 2]
        corners = [(left, low), (right, low), (right, high), (left, high), (left, low)]
        square = Path(np.array(corners), closed=True)
        squares.setdefault((colour, _shade(cell, level, largest)), []).append(square)
    for (colour, shade), paths in squares.items():
        axes.add_patch(
            PathPatch(
                Path.make_compound_path(*paths),
                facecolor=(drawn(colour), shade / _SHADES),
                edgecolor=drawn("card"),
                linewidth=1,
            )
        )


def _write_error(axes: Axes, cell: Cell, level: float, largest: float) -> None:
    strong = _shade(cell, level, largest) >= _STRONG
    axes.text(
        cell.clustering,
        cell.path_length,
        f"{cell.error:.1f}",
        ha="center",
        va="center_baseline",
        fontsize=7.5,
        color=drawn("reverse" if strong else "ink"),
    )


def _shade(cell: Cell, level: float, largest: float) -> int:
    return max(1, int(np.ceil(_SHADES * abs(cell.error - level) / largest - 1e-9)))


def _frame(axes: Axes, cells: Sequence[Cell]) -> None:
    """Show all bins that hold graphs, and the complete graph's corner."""
    columns = [cell.clustering for cell in cells]
    rows = [cell.path_length for cell in cells]
    width, height = 1 / 15, 3.5 / 15
    room = 0.5 + _ROOM
    axes.set_xlim(max(min(columns) - room * width, -0.01), max(*columns, 0.5) + room * width)
    axes.set_ylim(max(min(rows) - room * height, 0.97), max(*rows, 1.5) + room * height)


def _outline(axes: Axes, box: Box, network: NetworkAnalysis) -> None:
    """The outline of a sweet spot, around whole bins."""
    from matplotlib.patches import Rectangle  # noqa: PLC0415 (slow to import)

    corners = np.array([[box.clustering[i], box.path_length[i]] for i in (0, 1)])
    (left, low), (right, high) = network.grid.indices(corners)
    x, y = network.grid.clustering, network.grid.path_length
    axes.add_patch(
        Rectangle(
            (x[left], y[low]),
            x[right + 1] - x[left],
            y[high + 1] - y[low],
            fill=False,
            edgecolor=drawn("ink"),
            linewidth=2,
            zorder=3,
        )
    )


def _rectangle(box: Box) -> tuple[tuple[float, float], float, float]:
    (left, right), (low, high) = box.clustering, box.path_length
    return (left, low), right - left, high - low


def _bins_along(network: NetworkAnalysis, curve: Curve) -> Float[Array, "bins 2"]:
    """Places along a curve and errors of the bins it runs through."""
    held, along = (
        ("path_length", "clustering")
        if curve.along == "clustering"
        else ("clustering", "path_length")
    )
    return np.array(
        [
            (getattr(cell, along), cell.error)
            for cell in network.cells
            if abs(getattr(cell, held) - curve.at) < 1e-6
        ]
    )
