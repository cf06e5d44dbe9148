"""The skeleton of pages, the wording of numbers, and images."""

from __future__ import annotations

import base64
import io
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests.report.reports import Parsed, model_report
from weightspace.report.demo_results import interval
from weightspace.report.images import image_element
from weightspace.report.page import Section, element, write_element, write_page
from weightspace.report.wording import duration, percent, shortened


@given(text=st.text(), attribute=st.text())
def test_any_text_is_text(text: str, attribute: str) -> None:
    parsed = Parsed(write_element(element("p", text, element("b", text), text, title=attribute)))
    assert [tag for tag, _ in parsed.elements] == ["p", "b"]
    assert "<" in parsed.text or "<" not in text


@given(
    text=st.text(
        st.characters(exclude_categories=["Cc", "Cs", "Cn"], exclude_characters="\u00a0"),
        min_size=1,
    )
)
def test_ordinary_text_is_kept(text: str) -> None:
    made = element("p", text, title=text)
    assert Parsed(write_element(made)).elements == [("p", {"title": text})]
    assert "".join(Parsed(write_element(made)).texts) == text


def test_children_keep_their_order() -> None:
    made = element("p", "a", element("b", "b"), "c", "d", element("i", "e"), "f")
    assert write_element(made) == "<p>a<b>b</b>cd<i>e</i>f</p>"


def test_page_has_its_parts() -> None:
    sections = [Section("one", "First & last", [element("p", "text")])]
    html = write_page(title="T", header=[element("h1", "T")], sections=sections, footer="end")
    parsed = Parsed(html)
    assert {"href": "#one"} in parsed.all("a")
    assert parsed.all("section") == [{"id": "one", "aria-labelledby": "one-heading"}]
    assert "prefers-color-scheme:dark" in html
    assert "width=device-width" in html
    assert "var(--" in html
    assert "{{" not in html


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0.0 s"),
        (9.94, "9.9 s"),
        (42.4, "42 s"),
        (99.6, "1 min 40 s"),
        (3599.7, "1 h 0 min"),
        (7500, "2 h 5 min"),
        (math.nan, "\u2013"),
        (math.inf, "\u2013"),
    ],
)
def test_durations(seconds: float, said: str) -> None:
    assert duration(seconds).replace("\u00a0", " ") == said


def test_percent_of_nothing() -> None:
    assert percent(math.nan) == "\u2013"


def test_names_on_axes_have_one_line() -> None:
    assert shortened("a\n  b\t") == "a b"
    assert len(shortened("x" * 50)) == 14


@pytest.mark.parametrize(("right", "networks"), [(0, 10), (3, 10), (10, 10), (350, 360)])
def test_interval_is_wilsons(right: int, networks: int) -> None:
    share, z = right / networks, 1.959963984540054
    middle = (share + z**2 / (2 * networks)) / (1 + z**2 / networks)
    half = z / (1 + z**2 / networks)
    half *= math.sqrt(share * (1 - share) / networks + z**2 / (4 * networks**2))
    found = interval(model_report(2, networks, test_accuracy=share))
    assert found == pytest.approx((middle - half, middle + half), abs=1e-9)


def test_images_are_clipped_and_shrunk() -> None:
    image = np.full((600, 300, 3), 2.0)
    image[:300] = -1
    image[:, :150, 0] = np.nan
    made = image_element(image, "Big", largest=100)
    assert (made.get("width"), made.get("height")) == ("50", "100")
    source = base64.b64decode(made.get("src", "").partition(",")[2])
    pixels = np.asarray(Image.open(io.BytesIO(source)))
    np.testing.assert_array_equal(pixels[90, 40], [255, 255, 255])
    np.testing.assert_array_equal(pixels[90, 5], [0, 255, 255])
    np.testing.assert_array_equal(pixels[5, 40], [0, 0, 0])
