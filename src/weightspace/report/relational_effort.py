"""The part of a report of wiring about how few graphs and epochs suffice."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from weightspace.relational.analysis import Analysis
from weightspace.report.page import Section, element
from weightspace.report.palette import model_colour
from weightspace.report.relational_cards import card, legend
from weightspace.report.relational_figures import Series, series_figure
from weightspace.report.relational_tables import number
from weightspace.report.wording import plural


def effort_section(analysis: Analysis) -> Section | None:
    """What few graphs and early epochs say; None where there are too few."""
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
    colours = legend([name for name, _ in networks])
    content = [*_single_words(analysis), colours, element("div", *cards, class_="figures")]
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
    return card(figure, "Graphs", words)


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
    return card(figure, "Epochs", words)


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
