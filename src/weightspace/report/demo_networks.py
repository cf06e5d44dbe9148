"""The part of a demo's report about the networks: what they hold and how well."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import numpy as np

from weightspace.report.demo_report import DemoReport
from weightspace.report.figures import histogram_figure
from weightspace.report.images import image_element
from weightspace.report.page import Section, element
from weightspace.report.wording import TIMES, count, duration, plural, size

MOST_IMAGES = 24
_MOST_IN_A_ROW = 8


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
    grids = [_grid(report, part) for part in np.array_split(np.arange(number), rows)]
    caption = element(
        "figcaption",
        "Top to bottom, or left to right on a narrow screen: the image, its network rendered at "
        "the same pixels, and the same network asked for more points than the image has. "
        "Smooth edges in the last one are the network's own guess between pixels.",
    )
    return [element("figure", *grids, caption, class_="card")]


def _grid(report: DemoReport, part: np.ndarray[tuple[int], np.dtype[np.int64]]) -> ET.Element:
    height, width = report.originals.shape[1:3]
    tall, wide = report.enlarged.shape[1:3]
    times = tall / max(height, 1)
    small, large = size(width, height), size(wide, tall)
    heads = [
        _head("Image", small),
        _head("Network", small),
        _head(f"Network, {times:.3g}{TIMES} as fine", large),
    ]
    images = []
    for index in part:
        which = f"image {index + 1}"
        images += [
            image_element(report.originals[index], f"Original of {which}", pixelated=True),
            image_element(
                report.rendered[index], f"Network of {which} at {small} pixels", pixelated=True
            ),
            image_element(report.enlarged[index], f"Network of {which} at {large} pixels"),
        ]
    return element("div", *heads, *images, class_="gallery", style=f"--columns:{len(part)}")


def _head(title: str, size: str) -> ET.Element:
    return element("p", element("strong", title), element("span", size), class_="head")


def _quality(report: DemoReport) -> list[ET.Element]:
    psnr = np.asarray(report.psnr, dtype=np.float64)
    finite = psnr[np.isfinite(psnr)]
    speed = (
        f"{plural(report.networks, 'network')} fitted in {duration(report.fit_seconds)}, "
        f"{report.networks_per_second:,.1f} a second."
    )
    if len(finite) == 0:
        return [element("p", f"{speed} How exact they are was not measured.", class_="intro")]
    low, median, high = np.percentile(finite, [5, 50, 95])
    left_out = len(psnr) - len(finite)
    text = (
        f"{speed} PSNR is the peak "
        "signal-to-noise ratio in decibels: higher is better, and from about 30 on the eye "
        f"hardly sees a difference. Half of the networks reach {median:.1f} dB; nine in ten lie "
        f"between {low:.1f} and {high:.1f}."
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
    return [
        element(
            "figure",
            figure,
            element("figcaption", element("h3", "How exactly they hold their images"), text),
            class_="card beside",
        )
    ]
