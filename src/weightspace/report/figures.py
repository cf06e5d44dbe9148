"""Curves over epochs and histograms.

Figures are drawn without pyplot, each on its own, so nothing is left behind in the process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from weightspace.report.palette import drawn
from weightspace.report.svg import HALO, page_style, svg_element

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Curve:
    """A line over epochs.

    Args:
        epochs: where it is known.
        values: one an epoch; NaN and infinite ones leave a gap.
        colour: the palette's name of it.
        dashed: training rather than validation.
    """

    epochs: Sequence[float]
    values: Sequence[float]
    colour: str
    dashed: bool = False


def curves_figure(
    curves: Sequence[Curve],
    *,
    name: str,
    label: str,
    shares: bool = False,
    level: float | None = None,
) -> ET.Element:
    """Curves over epochs.

    Args:
        curves: at least one.
        name: of the figure, unique in the page.
        label: what is to be seen.
        shares: whether the values are shares from 0 to 1; else losses.
        level: a value to compare with, drawn as a dotted line.
    """
    from matplotlib.ticker import MaxNLocator, PercentFormatter  # noqa: PLC0415 (slow)

    with page_style(name):
        figure, axes = new_figure(400, 250)
        axes.grid(axis="y")
        for curve in curves:
            _draw_curve(axes, curve)
        if level is not None:
            axes.axhline(level, color=drawn("muted"), linewidth=1, linestyle=":")
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        if shares:
            axes.set_ylim(-0.02, 1.02)
            axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
        elif _spans_decades(curves):
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter("")
        return svg_element(figure, label)


def histogram_figure(
    values: Float[Array, "n"], *, name: str, label: str, xlabel: str, ylabel: str
) -> ET.Element:
    """A histogram with a line at the median.

    Args:
        values: finite, at least one.
        name: of the figure, unique in the page.
        label: what is to be seen.
        xlabel: what is measured.
        ylabel: what is counted.
    """
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 (slow to import)

    with page_style(name):
        figure, axes = new_figure(400, 230)
        axes.grid(axis="y")
        low, high = float(values.min()), float(values.max())
        room = 0.5 if high - low < 1e-6 else 0.0
        bins = int(np.clip(np.sqrt(len(values)) * 1.5, 5, 40))
        edges = np.linspace(low - room, high + room, bins + 1)
        heights, *_ = axes.hist(
            values, edges.tolist(), color=drawn("right"), edgecolor=drawn("card"), linewidth=0.8
        )
        axes.set_ylim(0, 1.15 * np.max(heights))  # room for the median's label
        median = float(np.median(values))
        axes.axvline(median, color=drawn("wrong"), linewidth=1.5)
        text = axes.annotate(
            f"median {median:.1f}",
            (median, 1),
            xycoords=("data", "axes fraction"),
            xytext=(5, -2),
            textcoords="offset points",
            va="top",
            gid=HALO,
        )
        if median > low + 0.7 * (high - low) + room:
            text.set(ha="right", position=(-5, -2))
        axes.set(xlabel=xlabel, ylabel=ylabel)
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True, min_n_ticks=1))
        return svg_element(figure, label)


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of a size in points, which are the units of its SVG."""
    from matplotlib.figure import Figure  # noqa: PLC0415 (slow to import)

    figure = Figure(figsize=(width / 72, height / 72), layout="constrained")
    return figure, figure.add_subplot()


def _draw_curve(axes: Axes, curve: Curve) -> None:
    values = np.asarray(curve.values, dtype=np.float64)
    values[~np.isfinite(values)] = np.nan
    axes.plot(
        curve.epochs,
        values,
        color=drawn(curve.colour),
        linewidth=1.4 if curve.dashed else 2,
        linestyle=(0, (3.5, 2)) if curve.dashed else "-",
        marker="o" if np.isfinite(values).sum() < 3 else "",
        markersize=4,
    )


def _spans_decades(curves: Sequence[Curve]) -> bool:
    values = np.concatenate([np.asarray(curve.values, dtype=np.float64) for curve in curves])
    values = values[np.isfinite(values)]
    return bool(values.min() > 0 and values.max() > 50 * values.min())
