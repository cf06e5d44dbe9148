"""The parts of a demo's report about the models: learning, confusion, embeddings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import numpy.typing as npt

from weightspace.report.class_figures import class_swatch, confusion_figure, map_figure
from weightspace.report.demo_report import DemoReport, ModelReport
from weightspace.report.demo_results import best_model, chance, model_swatch
from weightspace.report.embedding import embedding_map, mapped_networks
from weightspace.report.figures import Curve, curves_figure
from weightspace.report.page import Section, element
from weightspace.report.palette import model_colour
from weightspace.report.wording import count, percent, plural, shortened

Array = npt.NDArray[Any]

_MOST_CONFUSIONS = 5
_POINTS_IN_A_PAGE, _POINTS_IN_A_MAP = 2400, 600  # t-SNE of more takes too long for a demo
_LONG_LEGEND = 30
_LONG_NAME = 60


def learning_section(report: DemoReport) -> Section:
    """Loss and accuracy over the epochs."""
    figures = [
        _curves(report, "loss", "Where a solid line turns up, the model starts to overfit."),
        _curves(
            report,
            "accuracy",
            "The dotted line is the chance level. The gap between a model's two lines "
            "is what it knows by heart but cannot carry over to other networks.",
        ),
    ]
    drawn = [figure for figure in figures if figure is not None]
    if not drawn:
        note = element("p", "No epochs were recorded.", class_="intro")
        return Section("learning", "Learning", [note])
    names = [
        element("li", model_swatch(index), model.name) for index, model in enumerate(report.models)
    ]
    legend = element(
        "ul",
        *names,
        element("li", element("span", class_="line dashed", aria_hidden="true"), "training"),
        element("li", element("span", class_="line", aria_hidden="true"), "validation"),
        class_="legend",
    )
    return Section("learning", "Learning", [legend, element("div", *drawn, class_="figures")])


def confusion_section(report: DemoReport) -> Section:
    """The confusion matrix of the best model, and those of the others to unfold."""
    best = best_model(report.models)
    intro = element(
        "p",
        "A row holds the test networks of one true class, a column those that a model takes for "
        "one. Blue on the diagonal is right, orange beside it is wrong; a stronger colour is a "
        "larger share of the row.",
        class_="intro",
    )
    others = [_confusion(report, index) for index in range(len(report.models)) if index != best]
    content = [intro, _confusion(report, best, "beside")]
    if others:
        content.append(
            element(
                "details",
                element("summary", f"Confusion of {plural(len(others), 'other model')}"),
                element("div", *others, class_="figures"),
            )
        )
    return Section("confusion", "Confusion", content)


def map_section(report: DemoReport) -> Section:
    """A map of the test networks for each model, and the legend of classes."""
    from rich.console import Console  # noqa: PLC0415 (only reports that are written need it)
    from rich.progress import track  # noqa: PLC0415

    intro = element(
        "p",
        "Every point is a test network, placed by what a model makes of its weights before it "
        "names a class (t-SNE). Networks that a model finds alike lie together: islands of one "
        "colour mean that it sees the classes. "
        "A class is named where it forms an island. Distances between islands mean nothing.",
        class_="intro",
    )
    items = [
        element("li", class_swatch(index), shortened(name, _LONG_NAME))
        for index, name in enumerate(report.classes)
    ]
    legend = element("ul", *items, class_="legend")
    if len(items) > _LONG_LEGEND:
        summary = element("summary", f"Legend of {plural(len(items), 'class')}")
        legend = element("details", summary, legend)
    maps = [
        _map(report, index)
        for index in track(
            range(len(report.models)),
            "Mapping embeddings",
            console=Console(stderr=True),
            transient=True,
        )
    ]
    return Section(
        "maps", "Maps of the networks", [intro, legend, element("div", *maps, class_="figures")]
    )


def _curves(report: DemoReport, measure: str, caption: str) -> ET.Element | None:
    """A figure of one measure, or None if no model recorded it."""
    curves = [curve for index in range(len(report.models)) for curve in _of(report, index, measure)]
    if not curves:
        return None
    figure = curves_figure(
        curves,
        name=measure,
        label=f"Training and validation {measure} of each model over its epochs",
        shares=measure == "accuracy",
        level=chance(report) if measure == "accuracy" else None,
    )
    return element(
        "figure",
        figure,
        element("figcaption", element("strong", f"{measure.title()}. "), caption),
        class_="card",
    )


def _of(report: DemoReport, index: int, measure: str) -> Iterator[Curve]:
    """A model's curves of a measure that hold at least one number; validation lies on top."""
    history = report.models[index].history
    epochs = [row.get("epoch", place) for place, row in enumerate(history)]
    for part in ("train", "val"):
        values = [row.get(f"{part}_{measure}", math.nan) for row in history]
        if any(map(math.isfinite, values)):
            yield Curve(epochs, values, model_colour(index), dashed=part == "train")


def _confusion(report: DemoReport, index: int, layout: str = "") -> ET.Element:
    model = report.models[index]
    confusion = np.asarray(model.confusion)
    figure = confusion_figure(
        confusion,
        report.classes,
        name=f"confusion-{index}",
        label=f"Confusion matrix of {model.name}: {np.trace(confusion)} of {confusion.sum()} right",
    )
    caption = element(
        "figcaption",
        element("h3", model_swatch(index), model.name),
        element("p", _right(model)),
        *_confusions(confusion, report),
    )
    return element("figure", figure, caption, class_=f"card {layout}".strip())


def _right(model: ModelReport) -> str:
    networks = plural(int(np.sum(model.confusion)), "test network")
    if math.isnan(model.test_accuracy):
        return f"{networks}; the accuracy was not measured."
    return f"{percent(model.test_accuracy)} of {networks} right."


def _confusions(confusion: Array, report: DemoReport) -> list[ET.Element]:
    """The most frequent mistakes in words."""
    wrong = np.where(np.eye(len(confusion), dtype=bool), 0, confusion)
    order = np.argsort(-wrong, axis=None, kind="stable")[:_MOST_CONFUSIONS]
    pairs = [divmod(int(place), len(confusion)) for place in order]
    items = [
        element(
            "li",
            element("b", shortened(report.classes[true], _LONG_NAME)),
            " taken for ",
            element("b", shortened(report.classes[taken], _LONG_NAME)),
            f": {count(wrong[true, taken])} of {count(confusion[true].sum())}",
        )
        for true, taken in pairs
        if wrong[true, taken] > 0
    ]
    if not items:
        return []
    return [element("p", "Most frequent mistakes:"), element("ol", *items, class_="mistakes")]


def _map(report: DemoReport, index: int) -> ET.Element:
    model = report.models[index]
    embeddings, labels, left_out = _mappable(model, len(report.models))
    heading = element("h3", model_swatch(index), model.name)
    if len(embeddings) == 0:
        note = element("p", "There are no finite embeddings to show.")
        return element("figure", element("figcaption", heading, note), class_="card")
    figure = map_figure(
        embedding_map(embeddings, seed=model.seed),
        labels,
        report.classes,
        name=f"map-{index}",
        label=f"Map of {len(embeddings)} networks as {model.name} sees them, coloured by class",
    )
    shown = _right(model)
    if len(embeddings) + left_out < len(model.labels):
        shown += f" {count(len(embeddings))} of them are shown, chosen at random."
    if left_out:
        shown += f" {plural(left_out, 'network')} without finite embeddings left out."
    return element(
        "figure",
        element("figcaption", heading, element("p", shown)),
        figure,
        class_="card",
    )


def _mappable(model: ModelReport, models: int) -> tuple[Array, Array, int]:
    """Embeddings and labels that a map can show, and how many are not finite."""
    embeddings, labels = np.asarray(model.embeddings), np.asarray(model.labels)
    finite = np.isfinite(embeddings).all(axis=1)
    embeddings, labels = embeddings[finite], labels[finite]
    most = min(_POINTS_IN_A_MAP, _POINTS_IN_A_PAGE // models)
    chosen = mapped_networks(len(labels), seed=model.seed, most=most)
    return embeddings[chosen], labels[chosen], int((~finite).sum())
