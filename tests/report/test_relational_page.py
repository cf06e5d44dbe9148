"""The report of a study of wiring: it stands alone, escapes, and copes with little data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.relational.analysis.studies import study
from tests.report.reports import Parsed
from tests.report.test_demo_report import EVIL, assert_stands_alone
from weightspace.relational.analysis import ControlRuns, NetworkRuns, analyse
from weightspace.report.relational_page import relational_page


def page(*runs: NetworkRuns) -> str:
    return relational_page(analyse(runs), source="runs.parquet")


@pytest.fixture(scope="module")
def whole() -> str:
    first = study(60, 3, name="first", epochs=4)
    controls = {"null": ControlRuns(first.errors[:5] + 1, first.graphs[:5])}
    second = study(700, 2, name="second", seed=1)
    return page(replace(first, controls=controls), second)


def test_the_page_stands_alone_and_has_every_part(whole: str) -> None:
    parsed = assert_stands_alone(whole)
    ids = [attributes["id"] for attributes in parsed.all("section")]
    assert ids == [
        "results", "plane", "selection", "spots", "curves", "degree", "agreement", "effort",
        "controls", "method",
    ]  # fmt: skip
    all_ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(all_ids) == len(set(all_ids))
    links = {attributes["href"][1:] for attributes in parsed.all("a")}
    assert links == set(ids)


def test_every_figure_says_what_it_shows(whole: str) -> None:
    figures = [own for own in Parsed(whole).all("svg") if own.get("role") == "img"]
    assert len(figures) >= 2 + 2 + 4 + 2
    assert all(own["aria-label"] for own in figures)


def test_numbers_of_the_analysis_are_on_the_page(whole: str) -> None:
    text = Parsed(whole).text
    analysis = analyse([study(60, 3, name="first", epochs=4)]).networks["first"]
    assert analysis.complete is not None
    assert f"{analysis.complete.error:.2f} ± {analysis.complete.deviation:.2f}" in text
    assert analysis.held_out is not None
    assert f"{analysis.held_out.error:.2f}" in text
    assert "700 \u00d7 2" in text
    assert "nan" not in text.replace("nance", "")


def test_names_from_outside_are_text() -> None:
    runs = study(30, 2, labels=EVIL)
    runs = replace(runs, name=EVIL, controls={EVIL: ControlRuns(runs.errors[:3], ("",) * 3)})
    parsed = assert_stands_alone(page(runs, study(30, 2, labels=EVIL)))
    assert "alert('x')" in parsed.text


@pytest.mark.parametrize(("graphs", "seeds"), [(1, 1), (2, 1), (3, 2), (30, 1)])
def test_little_data_makes_a_page(graphs: int, seeds: int) -> None:
    runs = replace(study(graphs, seeds), complete=np.empty(0))
    parsed = assert_stands_alone(page(runs))
    assert "Sweet spots" not in parsed.text or seeds > 1
    assert "How it was counted" in parsed.text


def test_equal_errors_make_a_page() -> None:
    runs = study(20, 2)
    assert_stands_alone(page(replace(runs, errors=np.ones((20, 2)), complete=np.ones(2))))


def test_equal_studies_make_equal_pages() -> None:
    assert page(study(20, 2)) == page(study(20, 2))
