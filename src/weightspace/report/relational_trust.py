"""The parts of a report of wiring about how far its numbers can be trusted."""

from __future__ import annotations

from weightspace.relational.analysis import Analysis
from weightspace.report.page import Section
from weightspace.report.relational_cards import card, intro
from weightspace.report.relational_figures import selection_figure
from weightspace.report.relational_tables import (
    agreement_table,
    controls_table,
    regression_table,
    selection_table,
)


def selection_section(analysis: Analysis) -> Section:
    """What choosing a graph is worth, and how reliable means are."""
    note = intro(
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
        content.append(card(figure, "What a choice is worth", words))
    return Section("selection", "Choosing a graph", content)


def regression_section(analysis: Analysis) -> Section | None:
    """Degree against place; None where graphs are too few."""
    if not any(own.regression for own in analysis.networks.values()):
        return None
    note = intro(
        "Degree and place are entangled: sparse graphs have long paths. R\u00b2 is the share of "
        "the variance of graphs\u2019 mean errors that a quadratic in the logarithm of the mean "
        "degree explains, one in clustering and path length, and both; left out: the share it "
        "predicts of graphs that had no part in the fit. For graphs of one size the degree fixes "
        "the density and, at matched compute, the width. The tests ask whether one explains "
        "what the other cannot."
    )
    return Section("degree", "Degree or place?", [note, regression_table(analysis)])


def agreement_section(analysis: Analysis) -> Section | None:
    """Correlations between networks; None if no two share enough."""
    if not analysis.agreements:
        return None
    note = intro(
        "Correlations of mean errors between networks, over graphs or bins that both have and, "
        "first, the complete graph, as published. One far point can make a correlation: see it "
        "without. Without noise: what it would be if means were exact, by both reliabilities."
    )
    return Section("agreement", "Do networks agree?", [note, agreement_table(analysis)])


def controls_section(analysis: Analysis) -> Section | None:
    """Graphs against controls; None if there are none."""
    if not any(own.controls for own in analysis.networks.values()):
        return None
    note = intro(
        "What a graph does beyond what else it changes. Null graphs keep every degree; other "
        "controls keep the width or the parameters, or wire neurons in separate groups. "
        "A positive difference: the control is worse."
    )
    return Section("controls", "Controls", [note, controls_table(analysis)])
