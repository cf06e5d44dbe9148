"""The part of a demo's report about the networks: what they hold and how well."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from xml.etree import ElementTree as ET

import numpy as np

from weightspace.report.demo_report import DemoReport
from weightspace.report.figures import histogram_figure
from weightspace.report.images import image_element
from weightspace.report.page import Section, element
from weightspace.report.wording import TIMES, count, duration, plural, size, speed

MOST_IMAGES = 24
_MOST_IN_A_ROW = 8
_PIXELS_IN_A_PAGE = 8 * 256 * 256


def networks_section(report: DemoReport) -> Section:
    """Images beside what their networks hold, and how exactly they hold it."""
    intro = element(
        "p",
        "A network maps a point of the plane to the colour of the image there. It has no pixels, "
        "so it can be rendered at any size. The classifiers below never see these pictures, only "
        "the weights.",
        class_="intro",
    )
    return Section("networks", "The networks", [intro, *_gallery(report), *_quality(report)])


def _gallery(report: DemoReport) -> list[ET.Element]:
    number = min(len(report.originals), MOST_IMAGES)
    if number == 0:
        return []
    rows = -(-number // _MOST_IN_A_ROW)
    grids = [_grid(report, part.tolist()) for part in np.array_split(np.arange(number), rows)]
    caption = element(
        "figcaption",
        "Top to bottom, or left to right on a narrow screen: the image, its network rendered at "
        "the same pixels, and the same network asked for more points than the image has. "
        "Smooth edges in the last one are the network's own guess between pixels.",
    )
    return [element("figure", *grids, caption, class_="card")]


def _grid(report: DemoReport, part: Sequence[int]) -> ET.Element:
    height, width = report.originals.shape[1:3]
    tall, wide = report.enlarged.shape[1:3]
    times = tall / max(height, 1)
    small, large = size(width, height), size(wide, tall)
    heads = [
        _head("Image", small),
        _head("Network", small),
        _head(f"Network, {times:.3g}{TIMES} as fine", large),
    ]
    show = partial(image_element, largest=_largest_side(report))
    images = []
    for index in part:
        which = f"image {index + 1}"
        images += [
            show(report.originals[index], f"Original of {which}", pixelated=True),
            show(report.rendered[index], f"Network of {which} at {small} pixels", pixelated=True),
            show(report.enlarged[index], f"Network of {which} at {large} pixels"),
        ]
    return element("div", *heads, *images, class_="gallery", style=f"--columns:{len(part)}")


def _largest_side(report: DemoReport) -> int:
    """The side to which images are shrunk so that a page stays light to send."""
    number = min(len(report.originals), MOST_IMAGES)
    pixels = [images[0, ..., 0].size for images in (report.originals, report.enlarged)]
    large = [each for each in (pixels[0], *pixels) if each > _PIXELS_IN_A_PAGE // (3 * number)]
    return math.isqrt(_PIXELS_IN_A_PAGE // (number * max(len(large), 1)))


def _head(title: str, size: str) -> ET.Element:
    return element("p", element("strong", title), element("span", size), class_="head")


def _quality(report: DemoReport) -> list[ET.Element]:
    psnr = np.asarray(report.psnr, dtype=np.float64)
    finite = psnr[np.isfinite(psnr)]
    pace = speed(report.networks_per_second)
    fitted = f"{plural(report.networks, 'network')} fitted"
    if math.isfinite(report.fit_seconds):
        fitted += f" in {duration(report.fit_seconds)}"
    fitted += f", {pace}." if pace else "."
    if len(finite) == 0:
        return [element("p", f"{fitted} How exact they are was not measured.", class_="intro")]
    low, median, high = np.percentile(finite, [5, 50, 95])
    left_out = len(psnr) - len(finite)
    text = (
        f"{fitted} PSNR is the peak signal-to-noise ratio in decibels: higher is better, and "
        "from about 30 on the eye hardly sees a difference. Half of the networks reach "
        f"{median:.1f} dB; nine in ten lie between {low:.1f} and {high:.1f}."
    )
    if left_out:
        text += f" {count(left_out)} without a finite value are left out."
    figure = histogram_figure(
        finite,
        name="psnr",
        label=f"Histogram of the PSNR of {len(finite)} networks, median {median:.1f} dB",
        xlabel="PSNR (dB)",
        ylabel="networks",
    )
    caption = element("figcaption", element("h3", "How exactly they hold their images"), text)
    return [element("figure", figure, caption, class_="card beside")]
