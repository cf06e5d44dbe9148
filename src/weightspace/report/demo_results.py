"""The header of a demo's report and its table of results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.etree import ElementTree as ET

import numpy as np

from weightspace.report.demo_report import DemoReport, ModelReport
from weightspace.report.page import Section, element
from weightspace.report.palette import model_colour, variable
from weightspace.report.wording import UNKNOWN, count, duration, percent, plural, speed

_COLUMNS = ("Model", "Test accuracy", "Parameters", "Training time", "Epochs", "Seed")


def header(report: DemoReport) -> list[ET.Element]:
    """The title, a sentence with the main result, and the main numbers."""
    return [
        element("p", "weightspace demo", class_="kicker"),
        element("h1", f"Reading {report.dataset} networks from their weights"),
        element("p", *_lead(report), class_="lead"),
        element("dl", *(_tile(*tile) for tile in _tiles(report)), class_="tiles"),
    ]


def results_section(report: DemoReport) -> Section:
    """The table of models."""
    heads = [element("th", title, scope="col", role="columnheader") for title in _COLUMNS]
    rows = [_row(index, model, report) for index, model in enumerate(report.models)]
    table = element(
        "table",
        element("thead", element("tr", *heads, role="row"), role="rowgroup"),
        element("tbody", *rows, role="rowgroup"),
        class_="results",
        role="table",
    )
    note = element(
        "p",
        "Every model sees only the weights of a network and says which class of image it holds. "
        f"The mark on the bars is the chance level, {percent(chance(report))}. "
        "The interval is what the number of test networks leaves open (95 %, Wilson), as if each "
        "held an image of its own.",
        class_="intro",
    )
    return Section("results", "Results", [note, element("div", table, class_="card")])


def chance(report: DemoReport) -> float:
    """The accuracy of guessing."""
    return 1 / max(len(report.classes), 1)


def best_model(models: Sequence[ModelReport]) -> int:
    """The model of the highest measured accuracy, the first one if there is none."""
    scores = [-1.0 if math.isnan(model.test_accuracy) else model.test_accuracy for model in models]
    return int(np.argmax(scores))


def interval(model: ModelReport) -> tuple[float, float] | None:
    """The accuracy's 95 % interval (Wilson 1927), if it was measured."""
    from scipy.stats import binomtest  # noqa: PLC0415 (slow to import)

    networks = int(np.sum(model.confusion))
    if networks == 0 or not 0 <= model.test_accuracy <= 1:
        return None
    right = round(model.test_accuracy * networks)
    found = binomtest(right, networks).proportion_ci(0.95, method="wilson")
    return float(found.low), float(found.high)


def _lead(report: DemoReport) -> list[ET.Element | str]:
    who = plural(report.networks, "small network") + (" each" if report.networks != 1 else "")
    fitted = f"{who} learned one image of {report.dataset}. "
    if not report.models:
        return [fitted, "No model was trained on them."]
    best = report.models[best_model(report.models)]
    bounds = interval(best)
    if bounds is None:
        return [fitted, "How well a model reads their classes was not measured."]
    against = (
        "guessing would get"
        if bounds[0] > chance(report)
        else "which is not clearly better than guessing, at"
    )
    return [
        fitted,
        f"Looking at nothing but the weights, {best.name} names the class of ",
        element("strong", percent(best.test_accuracy)),
        f" of {plural(int(np.sum(best.confusion)), 'network')} it never saw; "
        f"{against} {percent(chance(report))}.",
    ]


def _tiles(report: DemoReport) -> list[tuple[str, str, str]]:
    tiles = []
    if report.models:
        best = report.models[best_model(report.models)]
        tiles.append(("Best test accuracy", percent(best.test_accuracy), best.name))
    tiles.append(("Chance level", percent(chance(report)), plural(len(report.classes), "class")))
    pace = speed(report.networks_per_second)
    tiles.append(("Networks fitted", count(report.networks), pace))
    psnr = np.asarray(report.psnr)
    psnr = psnr[np.isfinite(psnr)]
    quality = f"{np.median(psnr):.1f} dB median PSNR" if len(psnr) else ""
    tiles.append(("Time to fit them", duration(report.fit_seconds), quality))
    return tiles


def _tile(title: str, value: str, note: str) -> ET.Element:
    return element(
        "div",
        element("dt", title),
        element("dd", value, class_="value"),
        element("dd", note or "\u00a0", class_="note"),
    )


def _row(index: int, model: ModelReport, report: DemoReport) -> ET.Element:
    best = index == best_model(report.models) and len(report.models) > 1
    name = element("div", model_swatch(index), element("strong", model.name), class_="name")
    if best and not math.isnan(model.test_accuracy):
        name.append(element("span", "best", class_="badge"))
    first = [name, element("div", model.summary, class_="summary")]
    values: list[list[ET.Element | str]] = [
        _accuracy(index, model, report),
        [count(model.parameters)],
        [duration(model.train_seconds)],
        [count(model.epochs)],
        [str(model.seed)],
    ]
    cells = [
        element("td", *value, role="cell", data_title=title)
        for title, value in zip(_COLUMNS[1:], values, strict=True)
    ]
    cells[0].set("class", "accuracy")
    return element("tr", element("th", *first, scope="row", role="rowheader"), *cells, role="row")


def model_swatch(index: int) -> ET.Element:
    """The colour of a model, for tables and legends."""
    style = f"background:{variable(model_colour(index))}"
    return element("span", class_="dot", style=style, aria_hidden="true")


def _accuracy(index: int, model: ModelReport, report: DemoReport) -> list[ET.Element | str]:
    if math.isnan(model.test_accuracy):
        return [f"{UNKNOWN} not measured"]
    share = 100 * min(max(model.test_accuracy, 0), 1)
    colour = variable(model_colour(index))
    bar = element(
        "span",
        element("span", class_="filled", style=f"width:{share:.1f}%;background:{colour}"),
        element("span", class_="chance", style=f"left:{100 * chance(report):.1f}%"),
        class_="bar",
        aria_hidden="true",
    )
    value = element("strong", percent(model.test_accuracy))
    bounds = interval(model)
    if bounds is None:
        return [value, bar]
    text = f"{100 * bounds[0]:.1f} to {percent(bounds[1])}"
    return [value, bar, element("span", text, class_="interval")]
