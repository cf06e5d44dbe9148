"""The parts of a report of wiring about the plane: heatmaps, sweet spots, U-shapes."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from weightspace.relational.analysis import Analysis, NetworkAnalysis
from weightspace.relational.analysis.curves import Measure
from weightspace.report.page import Section, element
from weightspace.report.relational_cards import card, intro, item, legend
from weightspace.report.relational_figures import (
    CLUSTERING,
    PATH_LENGTH,
    heatmap_figure,
    shown_curves,
    spots_figure,
    u_figure,
)
from weightspace.report.relational_tables import box_words, spots_table
from weightspace.report.wording import plural


def heatmap_section(analysis: Analysis) -> Section:
    """Mean errors over the plane."""
    note = intro(
        "Every square is a bin of graphs, with the mean error of all their runs. Blue is better "
        "than the complete graph (where it was not run: than the average), orange worse; the "
        "stronger, the larger the difference in this network. The frame is the sweet spot by "
        "the published procedure, out to whole bins: around all that is not significantly "
        "worse than the best."
    )
    figures = [
        card(
            heatmap_figure(own, name=f"heatmap-{index}", label=f"Mean errors of {name}"),
            name,
            _heatmap_words(own),
        )
        for index, (name, own) in enumerate(analysis.networks.items())
    ]
    return Section("plane", "The plane", [note, element("div", *figures, class_="figures")])


def _heatmap_words(own: NetworkAnalysis) -> str:
    single = sum(cell.graphs == 1 for cell in own.cells)
    words = f"{plural(len(own.runs.graphs), 'graph')} in {plural(len(own.cells), 'bin')}"
    return f"{words}; {plural(single, 'bin')} with one graph only." if single else f"{words}."


def spots_section(analysis: Analysis) -> Section | None:
    """Sweet spots by every reading; None where nothing could be tested."""
    found = {
        name: own.sweet_spots.published.box
        for name, own in analysis.networks.items()
        if own.sweet_spots.published
    }
    if not found:
        return None
    note = intro(
        "Each reading asks more of the data. False discoveries controlled: fewer units are "
        "called worse, so the spot grows. Bins with few graphs are often best by luck. Runs of "
        "one graph resemble each other, so one sample for each graph is the stricter count."
    )
    figure = spots_figure(
        [*found.values()],
        analysis.shared if len(found) > 1 else None,
        name="spots",
        label="Sweet spots of all networks in the plane of clustering and path length",
    )
    words = "Each frame is the published reading of one network."
    if analysis.shared is not None and len(found) > 1:
        words += f" Filled: what all share, {box_words(analysis.shared)}."
    where = card(figure, "Where they lie", words, legend([*found]))
    return Section("spots", "Sweet spots", [note, where, spots_table(analysis)])


def curves_section(analysis: Analysis) -> Section | None:
    """Error over one measure while the other is held; None where graphs are too few."""
    measures: tuple[tuple[Measure, str], ...] = (
        ("clustering", PATH_LENGTH),
        ("path_length", CLUSTERING),
    )
    figures = [
        _curve_card(name, own, along, held, f"curve-{index}-{along}")
        for index, (name, own) in enumerate(analysis.networks.items())
        for along, held in measures
        if shown_curves(own, along)
    ]
    if not figures:
        return None
    note = intro(
        "A second-degree polynomial through all graphs of a band, for the bands of most graphs. "
        "A curve is called a U if it surely bends up (tests of all curves of a network "
        "adjusted together) and its lowest point lies among the graphs."
    )
    return Section("curves", "U-shapes", [note, element("div", *figures, class_="figures")])


def _curve_card(
    name: str, own: NetworkAnalysis, along: Measure, held: str, figure_name: str
) -> ET.Element:
    chosen = shown_curves(own, along)
    all_curves = [curve for curve in own.curves if curve.along == along]
    shaped = sum(curve.u_shaped for curve in all_curves)
    items = [
        item(index, f"{held} {curve.at:.2f}{', U' if curve.u_shaped else ''}")
        for index, curve in enumerate(chosen)
    ]
    varies = CLUSTERING if along == "clustering" else PATH_LENGTH
    figure = u_figure(own, along, name=figure_name, label=f"Error of {name} over {varies}")
    words = f"{shaped} of {plural(len(all_curves), 'curve')} are surely a U."
    return card(figure, f"{name}, over {varies}", words, element("ul", *items, class_="legend"))
