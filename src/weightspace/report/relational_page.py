"""The page of a study of wiring: what it found, and how far that can be trusted."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import numpy as np

from weightspace import __version__
from weightspace.relational.analysis import Analysis
from weightspace.report.page import Section, element, write_page
from weightspace.report.relational_cards import intro
from weightspace.report.relational_effort import effort_section
from weightspace.report.relational_plane import curves_section, heatmap_section, spots_section
from weightspace.report.relational_tables import best_table, box_words, number, overview_table
from weightspace.report.relational_trust import (
    agreement_section,
    controls_section,
    regression_section,
    selection_section,
)
from weightspace.report.wording import count, plural


def relational_page(analysis: Analysis, *, source: str) -> str:
    """The HTML of an analysis.

    Args:
        analysis: to be shown.
        source: where the runs are from.
    """
    sections = [
        _overview_section(analysis),
        heatmap_section(analysis),
        selection_section(analysis),
        spots_section(analysis),
        curves_section(analysis),
        regression_section(analysis),
        agreement_section(analysis),
        effort_section(analysis),
        controls_section(analysis),
        _method_section(analysis),
    ]
    return write_page(
        title="How wiring changes what networks learn",
        header=_header(analysis, source),
        sections=[section for section in sections if section is not None],
        footer=f"Written by weightspace {__version__}. This page is one file and loads nothing.",
    )


def _header(analysis: Analysis, source: str) -> list[ET.Element]:
    return [
        element("p", "weightspace relational analyse", class_="kicker"),
        element("h1", "How wiring changes what networks learn"),
        element("p", *_lead(analysis), class_="lead"),
        element("dl", *(_tile(*tile) for tile in _tiles(analysis, source)), class_="tiles"),
    ]


def _lead(analysis: Analysis) -> list[ET.Element | str]:
    compared = [own for own in analysis.networks.values() if own.complete and own.held_out]
    if not compared:
        return ["Networks wired by graphs, and what can be said of which graphs are good."]
    gains = [own.complete.error - own.held_out.error for own in compared]  # type: ignore[union-attr]
    lower = sum(gain > 0 for gain in gains)
    return [
        "A graph chosen on some seeds and measured on others has a lower error than the "
        "complete graph in ",
        element("strong", f"{lower} of {plural(len(compared), 'network')}"),
        f" (median difference {number(float(np.median(gains)))} percentage points). "
        "What follows shows where such graphs lie, and how far each number can be trusted.",
    ]


def _tiles(analysis: Analysis, source: str) -> list[tuple[str, str, str]]:
    networks = analysis.networks.values()
    runs = sum(int(np.isfinite(own.runs.errors).sum()) for own in networks)
    graphs = len({name for own in networks for name in own.runs.graphs})
    tiles = [
        ("Networks", count(len(analysis.networks)), ", ".join(analysis.networks)),
        ("Graphs", count(graphs), "different ones"),
        ("Runs", count(runs), source),
    ]
    if analysis.shared is not None and len(analysis.networks) > 1:
        words = box_words(analysis.shared).split(", ")
        tiles.append(("Shared sweet spot", words[0], words[1]))
    return tiles


def _tile(title: str, value: str, note: str) -> ET.Element:
    return element(
        "div",
        element("dt", title),
        element("dd", value, class_="value"),
        element("dd", note or "\u00a0", class_="note"),
    )


def _overview_section(analysis: Analysis) -> Section:
    note = intro(
        "Errors in percent, with the deviation over seeds. The best graph as chosen was picked "
        "by the number that is shown and so flatters itself; held out, it is picked on some "
        "seeds and measured on the others. Surely better: found so by a test of every graph "
        "with the share of false discoveries kept below "
        f"{100 * analysis.alpha:g} %." + _stopped_words(analysis)
    )
    details = element(
        "details", element("summary", "Best graphs of each network"), best_table(analysis)
    )
    return Section("results", "Results", [note, overview_table(analysis), details])


def _stopped_words(analysis: Analysis) -> str:
    """What halving did to a study."""
    stopped = {name: own.runs.stopped for name, own in analysis.networks.items()}
    listed = ", ".join(f"{number} of {name}" for name, number in stopped.items() if number)
    if not listed:
        return ""
    return (
        f" Halving stopped some graphs early ({listed}): they are left out. The graphs that are "
        "left were selected for low errors, so averages, shapes and the share of graphs better "
        "than the complete graph flatter them."
    )


def _method_section(analysis: Analysis) -> Section:
    points = (
        "Bins: 15 along clustering from 0 to 1, 15 along path length from 1 to 4.5, more of the "
        "same size where paths are longer. Where bins hold three graphs or more on average they "
        "are compared, else single graphs.",
        f"Sweet spot: Student\u2019s one-tailed t-test of every unit against the best, at "
        f"{analysis.alpha:g}, and the box around all that is not worse.",
        "False discoveries: Benjamini and Hochberg, 1995. Surely better: Welch\u2019s one-tailed "
        "t-test against the complete graph.",
        "Reliability: intraclass correlation by one-way analysis of variance, ICC(1, k).",
        "Left out: every graph is predicted by a fit to all others (PRESS).",
        "Intervals of correlations: Fisher\u2019s transformation, 95 %.",
    )
    items = [element("li", element("p", point)) for point in points]
    return Section("method", "How it was counted", [element("ul", *items, class_="steps")])
