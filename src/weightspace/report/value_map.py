"""Embeddings in the plane, coloured by what is known of the networks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy.typing as npt
from jaxtyping import Float

from weightspace.errors import DataError
from weightspace.report.palette import drawn
from weightspace.report.svg import page_style

Array = npt.NDArray[Any]

_SIDE = 230.0
"""The side of a panel in points."""


def write_value_maps(
    path: Path,
    rows: Mapping[str, Float[Array, "networks 2"]],
    values: Mapping[str, Float[Array, " networks"]],
) -> None:
    """Draw maps of embeddings as a PNG file: a row a map, a column a value.

    Args:
        path: the file; its folder is made if it is not there.
        rows: points by the name of what embedded them, such as those of
            :func:`weightspace.report.embedding_map`.
        values: by name; each colours the points of one column.

    Raises:
        DataError: there is nothing to draw, or not one value for each point.
    """
    counts = {len(points) for points in rows.values()} | {len(value) for value in values.values()}
    if len(counts) != 1 or not rows or not values:
        raise DataError(
            "maps", expected="points and as many values", found=f"counts {sorted(counts)}"
        )
    with page_style(path.stem):
        from matplotlib.figure import Figure  # noqa: PLC0415 (slow to import)

        size = (len(values) * _SIDE * 1.15 / 72, len(rows) * _SIDE / 72)
        figure = Figure(figsize=size, layout="constrained", facecolor=drawn("card"))
        axes = figure.subplots(len(rows), len(values), squeeze=False)
        for place, (name, points) in enumerate(rows.items()):
            for column, (known, value) in enumerate(values.items()):
                panel = axes[place, column]
                dots = panel.scatter(
                    points[:, 0], points[:, 1], c=value, s=7, cmap="viridis", linewidths=0
                )
                panel.set(xticks=[], yticks=[])
                panel.set_title(f"{name}: {known}", fontsize=9, color=drawn("ink"))
                figure.colorbar(dots, ax=panel, shrink=0.8)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=144)
