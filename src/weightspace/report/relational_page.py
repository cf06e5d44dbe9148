"""The page of a study of wiring: what it found, and how far that can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

import numpy as np

from weightspace import __version__
from weightspace.relational.analysis import Analysis, NetworkAnalysis
from weightspace.relational.analysis.curves import Measure
from weightspace.report.page import Section, element, write_page
from weightspace.report.palette import model_colour, variable
from weightspace.report.relational_figures import (
    CLUSTERING,
    PATH_LENGTH,
    Series,
    heatmap_figure,
    selection_figure,
    series_figure,
    shown_curves,
    spots_figure,
    u_figure,
)
from weightspace.report.relational_tables import (
    agreement_table,
    best_table,
    box_words,
    controls_table,
    number,
    overview_table,
    regression_table,
    selection_table,
    spots_table,
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
        _heatmap_section(analysis),
        _selection_section(analysis),
        _spots_section(analysis),
        _curves_section(analysis),
        _regression_section(analysis),
        _agreement_section(analysis),
        _effort_section(analysis),
        _controls_section(analysis),
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
    note = _intro(
        "Errors in percent, with the deviation over seeds. The best graph as chosen was picked "
        "by the number that is shown and so flatters itself; held out, it is picked on some "
        "seeds and measured on the others. Surely better: found so by a test of every graph "
        "with the share of false discoveries kept below "
        f"{100 * analysis.alpha:g} %."
    )
    details = element(
        "details", element("summary", "Best graphs of each network"), best_table(analysis)
    )
    return Section("results", "Results", [note, overview_table(analysis), details])


def _heatmap_section(analysis: Analysis) -> Section:
    note = _intro(
        "Every square is a bin of graphs, with the mean error of all their runs. Blue is better "
        "than the complete graph (where it was not run: than the average), orange worse; the "
        "stronger, the larger the difference in this network. The frame is the sweet spot by "
        "the published procedure, out to whole bins: around all that is not significantly "
        "worse than the best."
    )
    figures = [
        _card(
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


def _selection_section(analysis: Analysis) -> Section:
    note = _intro(
        "The lowest of many noisy means is low partly by luck, and does not stay so low on new "
        "seeds: the winner\u2019s curse. Averaged over all ways to share the seeds. The "
        "reliability is the share of the variance of means that the graphs account for; at 0.5, "
        "half of what tells them apart is noise."
    )
    content = [note, selection_table(analysis)]
    rows = [
        (
            name,
            own.held_out.seen - own.complete.error,
            own.held_out.error - own.complete.error,
            own.average - own.complete.error,
        )
        for name, own in analysis.networks.items()
        if own.held_out and own.complete
    ]
    if rows:
        figure = selection_figure(
            rows, name="selection", label="Errors of the best graph as chosen and held out"
        )
        words = (
            "Orange: the best graph on the seeds that chose it. Blue: the same graph on the "
            "others. Grey: the average of all graphs. The complete graph is at 0."
        )
        content.append(_card(figure, "What a choice is worth", words))
    return Section("selection", "Choosing a graph", content)


def _spots_section(analysis: Analysis) -> Section | None:
    found = {
        name: own.sweet_spots.published.box
        for name, own in analysis.networks.items()
        if own.sweet_spots.published
    }
    if not found:
        return None
    note = _intro(
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
    card = _card(figure, "Where they lie", words, _legend([*found]))
    return Section("spots", "Sweet spots", [note, card, spots_table(analysis)])


def _curves_section(analysis: Analysis) -> Section | None:
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
    note = _intro(
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
        _item(index, f"{held} {curve.at:.2f}{', U' if curve.u_shaped else ''}")
        for index, curve in enumerate(chosen)
    ]
    varies = CLUSTERING if along == "clustering" else PATH_LENGTH
    figure = u_figure(own, along, name=figure_name, label=f"Error of {name} over {varies}")
    words = f"{shaped} of {plural(len(all_curves), 'curve')} are surely a U."
    return _card(figure, f"{name}, over {varies}", words, element("ul", *items, class_="legend"))


def _regression_section(analysis: Analysis) -> Section | None:
    if not any(own.regression for own in analysis.networks.values()):
        return None
    note = _intro(
        "Degree and place are entangled: sparse graphs have long paths. R\u00b2 is the share of "
        "the variance of graphs\u2019 mean errors that a quadratic in the logarithm of the mean "
        "degree explains, one in clustering and path length, and both; left out: the share it "
        "predicts of graphs that had no part in the fit. For graphs of one size the degree fixes "
        "the density and, at matched compute, the width. The tests ask whether one explains "
        "what the other cannot."
    )
    return Section("degree", "Degree or place?", [note, regression_table(analysis)])


def _agreement_section(analysis: Analysis) -> Section | None:
    if not analysis.agreements:
        return None
    note = _intro(
        "Correlations of mean errors between networks, over graphs or bins that both have and, "
        "first, the complete graph, as published. One far point can make a correlation: see it "
        "without. Without noise: what it would be if means were exact, by both reliabilities."
    )
    return Section("agreement", "Do networks agree?", [note, agreement_table(analysis)])


def _effort_section(analysis: Analysis) -> Section | None:
    networks = [*analysis.networks.items()]
    alone = len(networks) == 1  # bands of several networks would hide each other
    graphs = [
        Series(
            [few.graphs for few in own.few_graphs],
            [few.correlation for few in own.few_graphs],
            model_colour(index),
            [few.low for few in own.few_graphs if alone],
            [few.high for few in own.few_graphs if alone],
        )
        for index, (_, own) in enumerate(networks)
        if own.few_graphs
    ]
    epochs = [
        Series(
            [early.epoch for early in own.epochs],
            [early.correlation.pearson for early in own.epochs],
            model_colour(index),
        )
        for index, (_, own) in enumerate(networks)
        if own.epochs
    ]
    cards = []
    if graphs:
        cards.append(_graphs_card(graphs))
    if epochs:
        cards.append(_epochs_card(epochs))
    if not cards:
        return None
    legend = _legend([name for name, _ in networks])
    content = [*_single_words(analysis), legend, element("div", *cards, class_="figures")]
    return Section("effort", "How little is enough?", content)


def _graphs_card(series: Sequence[Series]) -> ET.Element:
    figure = series_figure(
        series,
        name="few-graphs",
        label="Correlation of predicted and measured errors over the number of graphs",
        xlabel="graphs in the study",
        ylabel="correlation",
        log=True,
    )
    words = (
        "A quadratic surface fitted to so many random graphs predicts the errors of all others: "
        "the median correlation with what was measured, over choices of graphs"
        f"{', and the middle 90 %' if any(len(own.low) for own in series) else ''}. "
        "Noise in the measured means keeps it below 1."
    )
    return _card(figure, "Graphs", words)


def _epochs_card(series: Sequence[Series]) -> ET.Element:
    figure = series_figure(
        series,
        name="few-epochs",
        label="Correlation of errors at an epoch and at the end of training",
        xlabel="epoch",
        ylabel="correlation with the end",
        log=False,
    )
    words = "Mean errors of graphs at an epoch against those at the end of training."
    return _card(figure, "Epochs", words)


def _single_words(analysis: Analysis) -> list[ET.Element]:
    """What single graphs say of their bins."""
    found = []
    for name, own in analysis.networks.items():
        single = own.one_per_bin
        if single is None:
            continue
        words = (
            f"{name}: one random graph a bin correlates with all others of the bin at "
            f"{number(single.correlation)} (90 % of choices: {number(single.low)} to "
            f"{number(single.high)}, {plural(single.bins, 'bin')})."
        )
        parts = {part: c for (whole, part), c in analysis.subsets.items() if whole == name}
        values = {f"{c.pearson:.3f}" for c in parts.values()}
        if parts:
            words += (
                f" The graphs of {', '.join(parts)} correlate with the means of their bins at "
                f"{', '.join(sorted(values))}, each being a part of that mean."
            )
        found.append(element("p", words, class_="intro"))
    return found


def _controls_section(analysis: Analysis) -> Section | None:
    if not any(own.controls for own in analysis.networks.values()):
        return None
    note = _intro(
        "What a graph does beyond what else it changes. Null graphs keep every degree; other "
        "controls keep the width or the parameters, or wire neurons in separate groups. "
        "A positive difference: the control is worse."
    )
    return Section("controls", "Controls", [note, controls_table(analysis)])


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


def _intro(text: str) -> ET.Element:
    return element("p", text, class_="intro")


def _card(
    figure: ET.Element, title: str, words: str, legend: ET.Element | None = None
) -> ET.Element:
    above = [] if legend is None else [legend]
    caption = element("figcaption", element("strong", f"{title}. "), words)
    return element("figure", *above, figure, caption, class_="card")


def _legend(names: Sequence[str]) -> ET.Element:
    return element("ul", *(_item(i, name) for i, name in enumerate(names)), class_="legend")


def _item(index: int, text: str) -> ET.Element:
    style = f"background:{variable(model_colour(index))}"
    return element("li", element("span", class_="dot", style=style, aria_hidden="true"), text)
