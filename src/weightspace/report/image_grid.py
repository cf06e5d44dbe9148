"""Images side by side in a file: one row a network, one column a stage of what was done to it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from weightspace.errors import DataError
from weightspace.report.palette import drawn
from weightspace.report.svg import page_style

Array = npt.NDArray[Any]

_CELL = 62.0
"""The width of an image in points."""
_HEAD = 22.0
"""The height of the columns' names."""


def write_image_grid(path: Path, columns: Mapping[str, Float[Array, "n h w c"]]) -> None:
    """Draw images in a grid, each column under its name, as a PNG file.

    Args:
        path: the file; its folder is made if it is not there.
        columns: the images of each column, equally many, with one or three channels in [0, 1];
            values beyond are clipped.

    Raises:
        DataError: there are no images, or columns of different shapes.
    """
    shapes = {np.shape(images) for images in columns.values()}
    if len(shapes) != 1 or not next(iter(shapes))[0]:
        raise DataError(
            "columns of images",
            expected="at least one image in each, all of one shape",
            found=f"{sorted(shapes)}",
        )
    ((rows, height, width, _),) = shapes
    tall = _CELL * height / width
    with page_style(path.stem):
        from matplotlib.figure import Figure  # noqa: PLC0415 (slow to import)

        size = (len(columns) * _CELL / 72, (rows * tall + _HEAD) / 72)
        figure = Figure(figsize=size, facecolor=drawn("card"))
        top = 1 - _HEAD / (72 * size[1])
        axes = figure.subplots(
            rows,
            len(columns),
            squeeze=False,
            gridspec_kw={"wspace": 0.06, "hspace": 0.06}
            | {"left": 0.01, "right": 0.99, "bottom": 0.01, "top": top},
        )
        for place, (name, images) in enumerate(columns.items()):
            axes[0, place].set_title(name, fontsize=9, color=drawn("ink"), pad=4)
            for row, image in enumerate(images):
                shown = np.nan_to_num(np.asarray(image, dtype=np.float64)).clip(0, 1)
                axes[row, place].imshow(
                    shown if shown.shape[-1] == 3 else shown[..., 0],
                    cmap="gray",
                    vmin=0,
                    vmax=1,
                    interpolation="nearest",
                )
                axes[row, place].axis("off")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=144)
