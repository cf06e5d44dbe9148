"""Figures show the numbers that they were given."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from weightspace.report.class_figures import (
    class_marker,
    class_swatch,
    confusion_figure,
    map_figure,
)
from weightspace.report.figures import Curve, curves_figure, histogram_figure
from weightspace.report.palette import PALETTE, class_colour, model_colour, palette_css, themed


def texts(svg: ET.Element) -> list[str]:
    return [text.text or "" for text in svg.iter("text")]


def styled(svg: ET.Element, tag: str, part: str) -> list[ET.Element]:
    return [child for child in svg.iter(tag) if part in child.get("style", "")]


def test_curves_are_drawn_once_each() -> None:
    curves = [
        Curve([0, 1, 2], [3.0, 2.0, 1.0], "model-0", dashed=True),
        Curve([0, 1, 2], [3.0, 2.5, 2.0], "model-0"),
        Curve([0, 1, 2, 3], [3.0, float("nan"), 1.0, 2.0], "model-1"),
    ]
    svg = curves_figure(curves, name="loss", label="Loss")
    first = styled(svg, "path", "stroke: var(--model-0)")
    assert sorted("stroke-dasharray" in path.get("style", "") for path in first) == [False, True]
    (gap,) = styled(svg, "path", "stroke: var(--model-1)")
    assert gap.get("d", "").count("M") == 2
    assert svg.get("aria-label") == "Loss"


def test_curves_of_one_epoch_are_points() -> None:
    svg = curves_figure([Curve([0], [0.5], "model-2")], name="a", label="A", shares=True, level=0.1)
    assert len(list(svg.iter("use"))) >= 1
    assert "60 %" in texts(svg)


def test_losses_over_decades_have_a_logarithmic_axis() -> None:
    svg = curves_figure([Curve([0, 1], [10.0, 0.01], "model-0")], name="a", label="A")
    assert {"0.01", "0.1", "1", "10"} <= set(texts(svg))


@pytest.mark.parametrize("values", [[30.0], [30.0, 30.0], [1.0, 30.0, 31.0], [31.0, 30.0, 1.0]])
def test_histogram_says_the_median(values: list[float]) -> None:
    svg = histogram_figure(np.array(values), name="h", label="H", xlabel="dB", ylabel="networks")
    assert f"median {np.median(values):.1f}" in texts(svg)
    assert {"dB", "networks"} <= set(texts(svg))


def test_histogram_counts_every_value() -> None:
    values = np.random.default_rng(0).normal(size=200)
    svg = histogram_figure(values, name="h", label="H", xlabel="x", ylabel="y")
    bars = styled(svg, "path", "fill: var(--right)")
    corners = [re.findall(r"-?\d+\.?\d*", bar.get("d", "")) for bar in bars]
    tops = [np.ptp(np.array(numbers, dtype=float)[1::2]) for numbers in corners]
    wanted, _ = np.histogram(values, len(bars))
    np.testing.assert_allclose(tops / np.max(tops), wanted / wanted.max(), atol=0.01)


def test_confusion_writes_the_counts() -> None:
    confusion = np.array([[5, 1, 0], [0, 7, 0], [2, 0, 11]])
    svg = confusion_figure(confusion, ["a", "b", "c"], name="c", label="C")
    numbers = sorted(int(text) for text in texts(svg) if text.isdigit())
    assert numbers == [1, 2, 5, 7, 11]
    right = styled(svg, "path", "fill: var(--right)")
    wrong = styled(svg, "path", "fill: var(--wrong)")
    assert sum(path.get("d", "").count("M") for path in right) == 3
    assert sum(path.get("d", "").count("M") for path in wrong) == 2


def test_confusion_is_the_right_way_round() -> None:
    """Class 0 is taken for class 2: in the first row, and in the last column."""
    confusion = np.array([[0, 0, 4], [0, 0, 0], [0, 0, 0]])
    svg = confusion_figure(confusion, ["a", "b", "c"], name="c", label="C")
    (cell,) = styled(svg, "path", "fill: var(--wrong)")
    points = np.array(re.findall(r"-?\d+\.?\d*", cell.get("d", "")), dtype=float).reshape(-1, 2)
    width, height = map(float, svg.get("viewBox", "").split()[2:])
    x, y = points.mean(axis=0)
    assert x > 0.6 * width
    assert y < 0.4 * height


@pytest.mark.parametrize("classes", [1, 2, 15, 31, 100])
def test_confusion_of_any_size(classes: int) -> None:
    names = [f"a rather long name {index}" for index in range(classes)]
    svg = confusion_figure(np.eye(classes, dtype=int) * 1000, names, name="c", label="C")
    named = [text for text in texts(svg) if text.startswith("a rather")]
    assert 2 * min(classes, 15) <= len(named) <= 60
    assert max(map(len, named)) <= 14
    assert max(float(size) for size in sizes(svg)) < 20
    assert min(float(size) for size in sizes(svg)) > 7


def sizes(svg: ET.Element) -> list[str]:
    return [re.findall(r"font-size: ([\d.]+)px", t.get("style", ""))[0] for t in svg.iter("text")]


def test_map_shows_every_point_in_its_class() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 4, 80)
    svg = map_figure(random.normal(size=(80, 2)), labels, ["a", "b", "c", "d"], name="m", label="M")
    for index in range(4):
        group = styled(svg, "g", f"fill: var(--class-{index})")
        assert sum(len(list(each.iter("use"))) for each in group) == (labels == index).sum()


def test_map_names_islands_only() -> None:
    random = np.random.default_rng(0)
    labels = np.arange(90) % 3
    centres = np.array([[0, 0], [50, 0], [50, 0]])
    points = centres[labels] + random.normal(size=(90, 2))
    alike = map_figure(points[labels == 0], labels[labels == 0], "abc", name="m", label="M")
    assert texts(alike) == ["a"]
    mixed = points.copy()
    mixed[labels > 0] = random.normal(size=(60, 2))
    mixed[labels == 0] = random.normal(size=(30, 2))
    many = map_figure(mixed, labels, "abc", name="m", label="M")
    assert len(texts(many)) < 3


@pytest.mark.parametrize("points", [0, 1, 2])
def test_map_of_few_points(points: int) -> None:
    svg = map_figure(
        np.zeros((points, 2)), np.zeros(points, dtype=int), ["a", "b"], name="m", label="M"
    )
    assert svg.tag == "svg"


def test_hundred_classes_have_different_signs() -> None:
    signs = {(class_colour(index), class_marker(index)) for index in range(100)}
    assert len(signs) == 100
    assert class_swatch(3).find("path") is not None


def test_figures_take_the_pages_colours_and_font() -> None:
    curve = Curve([0, 1], [1.0, 0.5], model_colour(0))
    written = ET.tostring(curves_figure([curve], name="a", label="A"), encoding="unicode")
    assert not re.search("#[0-9a-f]{6}", written)
    assert "font-family" not in written
    assert "DejaVu" not in written


def test_colours_of_figures_are_told_apart() -> None:
    lights = [light for light, _ in PALETTE.values()]
    assert len(set(lights)) == len(lights)
    for name, (light, _) in PALETTE.items():
        assert themed(f"fill: {light}") == f"fill: var(--{name})"


def luminance(colour: str) -> float:
    """Relative luminance as in WCAG 2."""
    parts = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("theme", [0, 1])
@pytest.mark.parametrize(
    ("text", "ground", "ratio"),
    [
        ("ink", "card", 12),
        ("ink", "page", 12),
        ("muted", "card", 4.5),
        ("muted", "page", 4.5),
        ("accent", "card", 4.5),
        ("accent", "page", 4.5),
        ("reverse", "right", 4.5),
        *((f"model-{index}", "card", 2.7) for index in range(8)),
    ],
)
def test_text_and_lines_stand_out(text: str, ground: str, ratio: float, theme: int) -> None:
    low, high = sorted(luminance(PALETTE[name][theme]) for name in (text, ground))
    assert (high + 0.05) / (low + 0.05) >= ratio


@pytest.mark.parametrize("theme", [0, 1])
@pytest.mark.parametrize("hue", ["right", "wrong"])
def test_numbers_in_cells_stand_out(hue: str, theme: int) -> None:
    """Cells of all strengths, in both themes."""
    counts = 2 + np.round(998 * (np.arange(1, 15) / 14) ** 2).astype(int)
    confusion = np.diag(counts) + np.roll(np.diag(1000 - counts), 1, axis=1)
    if hue == "wrong":
        confusion = np.roll(confusion, 1, axis=1)
    svg = confusion_figure(confusion, [" "] * 14, name="c", label="C")
    cells = " ".join(cell.get("style", "") + ";" for cell in svg.iter("path"))
    for count in counts:
        opacity = np.ceil(16 * np.sqrt(count / 1000)) / 16
        assert opacity == 1 or f"fill: var(--{hue}); opacity: {opacity:g}" in cells
        number = next(text for text in svg.iter("text") if text.text == str(count))
        (colour,) = re.findall(r"fill: var\(--(\w+)\)", number.get("style", ""))
        ground = mixed(PALETTE["card"][theme], PALETTE[hue][theme], opacity)
        low, high = sorted([luminance(PALETTE[colour][theme]), luminance(ground)])
        assert (high + 0.05) / (low + 0.05) >= 3.5


def mixed(below: str, above: str, opacity: float) -> str:
    """The colour of a layer that lets another through."""
    parts = [
        round((1 - opacity) * int(below[i : i + 2], 16) + opacity * int(above[i : i + 2], 16))
        for i in (1, 3, 5)
    ]
    return "#" + "".join(f"{part:02x}" for part in parts)


def test_both_themes_define_every_colour() -> None:
    css = palette_css()
    for name, (light, dark) in PALETTE.items():
        assert f"--{name}:{light};" in css
        assert f"--{name}:{dark};" in css
