"""The report of ``weightspace demo``: what it says, checked, and written as one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Float, Int

from weightspace.errors import DataError

Array = npt.NDArray[Any]

_CHANNELS = (1, 3)


@dataclass(frozen=True)
class ModelReport:
    """What a metanetwork learned.

    Args:
        name: the model's.
        summary: a sentence about it.
        test_accuracy: on the test networks; NaN if it was not measured.
        parameters: how many it has.
        train_seconds: how long it trained.
        seed: of its weights and batches.
        epochs: how many it trained.
        history: one row an epoch with epoch, train_loss, train_accuracy, val_loss and
            val_accuracy; what is missing is left out of the curves.
        confusion: how often test networks of a class (rows) were taken for one (columns).
        embeddings: of the test networks.
        labels: the test networks' classes.
    """

    name: str
    summary: str
    test_accuracy: float
    parameters: int
    train_seconds: float
    seed: int
    epochs: int
    history: Sequence[Mapping[str, float]]
    confusion: Int[Array, "classes classes"]
    embeddings: Float[Array, "networks d"]
    labels: Int[Array, "networks"]


@dataclass(frozen=True)
class DemoReport:
    """All that the demo's report shows.

    Args:
        dataset: the name of the images.
        classes: the names of their classes.
        originals: some images, with one or three channels in [0, 1].
        rendered: their networks, rendered at the images' size.
        enlarged: their networks, rendered at several times that size.
        psnr: of each network that was fitted, in decibels.
        networks: how many were fitted.
        fit_seconds: how long that took.
        networks_per_second: how fast that was.
        models: the metanetworks, in the order of the page.
        settings: name and value of what the run can be repeated with.
        commands: what to type next, and what it does; if empty, commands for the folders ``zoo``
            and ``models`` that the demo writes beside its report.
    """

    dataset: str
    classes: Sequence[str]
    originals: Float[Array, "k h w c"]
    rendered: Float[Array, "k h w c"]
    enlarged: Float[Array, "k H W c"]
    psnr: Float[Array, "networks"]
    networks: int
    fit_seconds: float
    networks_per_second: float
    models: Sequence[ModelReport]
    settings: Mapping[str, str]
    commands: Mapping[str, str] = field(default_factory=dict)


def write_demo_report(path: Path, report: DemoReport) -> None:
    """Write a report as one HTML file that needs nothing else.

    The file is replaced whole or not at all. Laying out the maps of embeddings takes seconds
    to minutes, and shows a progress bar on standard error.

    Args:
        path: the file; its folder must be there.
        report: what it says.

    Raises:
        DataError: parts of the report contradict each other.
        FileError: the file cannot be written.
    """
    from weightspace.report.demo_page import demo_page  # noqa: PLC0415 (knows these classes)
    from weightspace.zoo.store_files import write_file  # noqa: PLC0415 (imports torch)

    _check(report)
    write_file(Path(path), demo_page(report).encode("utf-8"))


def _check(report: DemoReport) -> None:
    _check_images(report)
    classes = len(report.classes)
    for model in report.models:
        subject = f"report of {model.name}"
        _require(subject, "a confusion matrix", (classes, classes), np.shape(model.confusion))
        labels = np.asarray(model.labels)
        found = np.shape(model.embeddings)
        if len(found) != 2 or labels.shape != found[:1]:
            raise DataError(
                subject,
                expected="embeddings [networks, d] and labels [networks]",
                found=f"shapes {found} and {labels.shape}",
            )
        if labels.size and (labels.min() < 0 or labels.max() >= classes):
            raise DataError(
                subject,
                expected=f"labels from 0 to {classes - 1}",
                found=f"{labels.min()} to {labels.max()}",
            )


def _check_images(report: DemoReport) -> None:
    shape = np.shape(report.originals)
    if len(shape) != 4 or shape[-1] not in _CHANNELS:
        raise DataError(
            "originals", expected="shape [k, height, width, 1 or 3]", found=f"shape {shape}"
        )
    _require("rendered", "images", shape, np.shape(report.rendered))
    enlarged = np.shape(report.enlarged)
    if len(enlarged) != 4:
        raise DataError(
            "enlarged", expected="shape [k, height, width, 1 or 3]", found=f"shape {enlarged}"
        )
    _require("enlarged", "images", (shape[0], *enlarged[1:3], shape[3]), enlarged)


def _require(subject: str, thing: str, expected: tuple[int, ...], found: tuple[int, ...]) -> None:
    if expected != found:
        raise DataError(subject, expected=f"{thing} of shape {expected}", found=f"shape {found}")
