"""Tables of a study of wiring."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from weightspace.relational.analysis import Analysis, NetworkAnalysis
from weightspace.relational.analysis.sweet_spot import Box, SweetSpot
from weightspace.report.page import element
from weightspace.report.wording import UNKNOWN, count, percent

Cells = Sequence[Sequence[str]]


def table(heads: Sequence[str], rows: Cells) -> ET.Element:
    """A table in a card; the first cell of a row is its heading."""
    head = element("tr", *(element("th", text, scope="col") for text in heads))
    body = [
        element(
            "tr",
            element("th", first, scope="row"),
            *(element("td", cell) for cell in others),
        )
        for first, *others in rows
    ]
    made = element("table", element("thead", head), element("tbody", *body), class_="numbers")
    return element("div", made, class_="card wide")


def overview_rows(analysis: Analysis) -> tuple[Sequence[str], Cells]:
    """The main numbers of every network: heads, and a row each."""
    heads = (
        "network", "graphs \u00d7 seeds", "complete graph", "best graph, as chosen",
        "best, held out", "better than complete", "surely better", "sweet spot C", "sweet spot L",
    )  # fmt: skip
    return heads, [_overview(name, own) for name, own in analysis.networks.items()]


def overview_table(analysis: Analysis) -> ET.Element:
    """The main numbers of every network."""
    return table(*overview_rows(analysis))


def best_table(analysis: Analysis) -> ET.Element:
    """The best graphs of every network."""
    heads = ("network", "graph", "error, %", "C", "L", "degree")
    rows = [
        (
            name,
            own.graph,
            spread(own.error, own.deviation),
            f"{own.clustering:.3f}",
            f"{own.path_length:.3f}",
            f"{own.degree:.1f}",
        )
        for name, network in analysis.networks.items()
        for own in network.best
    ]
    return table(heads, rows)


def spots_table(analysis: Analysis) -> ET.Element:
    """Sweet spots by stricter and stricter reading."""
    heads = ("network", "reading", "C", "L", "in it", "best unit", "graphs in that")
    rows = []
    for name, own in analysis.networks.items():
        spots = own.sweet_spots
        readings = (
            ("as published", spots.published),
            ("false discoveries controlled", spots.controlled),
            (f"bins of {spots.fewest} graphs or more", spots.at_least),
            ("one sample a graph", spots.graph_means),
        )
        rows += [_spot(name, reading, spot) for reading, spot in readings if spot is not None]
    return table(heads, rows)


def agreement_table(analysis: Analysis) -> ET.Element:
    """Correlations between networks."""
    heads = (
        "networks", "Pearson", "95 % interval", "Spearman", "units", "without complete",
        "without noise",
    )  # fmt: skip
    rows = []
    for (first, second), found in analysis.agreements.items():
        shown = found.with_complete or found.graphs_only
        rows.append(
            (
                f"{first} and {second}",
                number(shown.pearson),
                f"{number(shown.low)} to {number(shown.high)}",
                number(shown.spearman),
                f"{shown.units} {found.kind}",
                number(found.graphs_only.pearson),
                UNKNOWN if found.corrected is None else number(found.corrected),
            )
        )
    return table(heads, rows)


def selection_table(analysis: Analysis) -> ET.Element:
    """What choosing the best graph is worth."""
    heads = (
        "network", "seeds: choose + report", "as chosen", "held out", "winner\u2019s curse",
        "all graphs", "reliability of means", "seeds for 0.90",
    )  # fmt: skip
    rows = []
    for name, own in analysis.networks.items():
        held, sure = own.held_out, own.reliability
        rows.append(
            (
                name,
                *(
                    (UNKNOWN,) * 4
                    if held is None
                    else (
                        f"{held.chosen_on} + {held.held_out}",
                        number(held.seen),
                        number(held.error),
                        number(held.curse),
                    )
                ),
                number(own.average),
                UNKNOWN if sure is None else number(sure.mean),
                UNKNOWN if sure is None or not sure.runs_for_90 else count(sure.runs_for_90),
            )
        )
    return table(heads, rows)


def regression_table(analysis: Analysis) -> ET.Element:
    """Degree against place."""
    heads = (
        "network", "degree R\u00b2", "(C, L) R\u00b2", "both R\u00b2", "degree, left out",
        "(C, L), left out", "both, left out", "p: (C, L) beyond degree",
        "p: degree beyond (C, L)",
    )  # fmt: skip
    rows = []
    for name, own in analysis.networks.items():
        found = own.regression
        if found is None:
            continue
        fits = (found.degree, found.place, found.both)
        rows.append(
            (
                name,
                *(number(fit.r2) for fit in fits),
                *(number(fit.predicted) for fit in fits),
                chance(found.place_beyond_degree.p),
                chance(found.degree_beyond_place.p),
            )
        )
    return table(heads, rows)


def controls_table(analysis: Analysis) -> ET.Element:
    """Other wirings against the graphs of the sweep."""
    heads = ("network", "control", "networks", "error, %", "compared with", "difference", "p")
    rows = [
        (
            name,
            found.kind,
            count(found.networks),
            spread(found.error, found.deviation),
            "its own graph" if found.paired else "all graphs",
            f"{found.difference:+.2f}",
            UNKNOWN if found.p is None else chance(found.p),
        )
        for name, own in analysis.networks.items()
        for found in own.controls
    ]
    return table(heads, rows)


def number(value: float) -> str:
    """A number with two decimals.

    >>> number(0.666), number(float("nan")) == UNKNOWN
    ('0.67', True)
    """
    return f"{value:.2f}" if value == value else UNKNOWN  # noqa: PLR0124 (NaN is not itself)


def spread(value: float, deviation: float) -> str:
    """A mean with its deviation.

    >>> print(spread(24.567, 0.102))
    24.57 ± 0.10
    """
    return f"{value:.2f} \u00b1 {deviation:.2f}"


def chance(p: float) -> str:
    """A p-value.

    >>> chance(0.0312)
    '0.031'
    """
    if p != p:  # noqa: PLR0124 (NaN)
        return UNKNOWN
    return "<\u00a00.0001" if p < 0.0001 else f"{p:.2g}"


def span(ends: tuple[float, float]) -> str:
    """A range.

    >>> print(span((0.1, 0.5)))
    0.10 to 0.50
    """
    return f"{ends[0]:.2f} to {ends[1]:.2f}"


def box_words(box: Box | None) -> str:
    """A box in words; a dash for none."""
    if box is None:
        return UNKNOWN
    return f"C {span(box.clustering)}, L {span(box.path_length)}"


def _overview(name: str, own: NetworkAnalysis) -> tuple[str, ...]:
    complete, best, spot = own.complete, own.best[0], own.sweet_spots.published
    return (
        name,
        f"{count(len(own.runs.graphs))} \u00d7 {own.runs.seeds}",
        UNKNOWN if complete is None else spread(complete.error, complete.deviation),
        spread(best.error, best.deviation),
        UNKNOWN if own.held_out is None else number(own.held_out.error),
        UNKNOWN if complete is None else f"{count(complete.better)} ({percent(complete.share)})",
        UNKNOWN
        if complete is None or complete.surely_better is None
        else count(complete.surely_better),
        UNKNOWN if spot is None else span(spot.box.clustering),
        UNKNOWN if spot is None else span(spot.box.path_length),
    )


def _spot(name: str, reading: str, spot: SweetSpot) -> tuple[str, ...]:
    return (
        name,
        reading,
        span(spot.box.clustering),
        span(spot.box.path_length),
        f"{len(spot.members)} of {spot.units}",
        f"C {spot.best_place[0]:.2f}, L {spot.best_place[1]:.2f}: {spot.best_error:.2f} %",
        count(spot.best_graphs),
    )
