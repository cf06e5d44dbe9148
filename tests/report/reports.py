"""Reports to write, and what a browser would make of the page."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np

from weightspace.report import DemoReport, ModelReport

VOID = {"meta", "img", "br", "link", "hr", "input", "source", "col", "area", "base", "embed"}


class Parsed(HTMLParser):
    """The elements of a page; tags that do not match raise."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == [], f"never closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"an attribute twice in {tag}"
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        """All text, with single spaces."""
        return " ".join(" ".join(self.texts).split())

    def all(self, tag: str) -> list[dict[str, str]]:
        """The attributes of all elements of a name."""
        return [attributes for name, attributes in self.elements if name == tag]


def model_report(classes: int, networks: int = 12, *, seed: int = 0, **changes: Any) -> ModelReport:
    """A model that is right about most networks."""
    random = np.random.default_rng(seed)
    labels = np.arange(networks) % classes
    taken = np.where(random.random(networks) < 0.7, labels, random.integers(0, classes, networks))
    confusion = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(confusion, (labels, taken), 1)
    history = [
        {
            "epoch": epoch,
            "train_loss": 2 / (1 + epoch),
            "train_accuracy": epoch / 5,
            "val_loss": 2.1 / (1 + epoch),
            "val_accuracy": epoch / 6,
        }
        for epoch in range(5)
    ]
    made = ModelReport(
        name=f"Model {seed}",
        summary="Reads weights.",
        test_accuracy=float(np.trace(confusion) / max(networks, 1)),
        parameters=1234,
        train_seconds=12.3,
        seed=seed,
        epochs=5,
        history=history,
        confusion=confusion,
        embeddings=random.normal(size=(networks, 6)),
        labels=labels,
    )
    return replace(made, **changes)


def demo_report(
    number: int = 3, *, images: int = 2, channels: int = 1, side: int = 8, **changes: Any
) -> DemoReport:
    """A small report with two models."""
    random = np.random.default_rng(1)
    originals = random.random((images, side, side, channels))
    made = DemoReport(
        dataset="digits",
        classes=[f"c{index}" for index in range(number)],
        originals=originals,
        rendered=originals,
        enlarged=originals.repeat(4, axis=1).repeat(4, axis=2),
        psnr=random.normal(35, 2, 40),
        networks=40,
        fit_seconds=4.2,
        networks_per_second=9.5,
        models=[model_report(number, seed=seed) for seed in range(2)],
        settings={"command": "weightspace demo", "seed": "0"},
    )
    return replace(made, **changes)
