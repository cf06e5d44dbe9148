"""Images of a data set as elements of a page."""

from __future__ import annotations

import base64
import io
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from weightspace.report.page import element

Array = npt.NDArray[Any]


def image_element(
    image: Float[Array, "height width channels"],
    alt: str,
    *,
    largest: int = 256,
    pixelated: bool = False,
) -> ET.Element:
    """An image that is part of the page.

    Args:
        image: one or three channels in [0, 1]; values beyond are clipped, NaN is black.
        alt: what is to be seen.
        largest: pixels on a side; larger images are shrunk to it.
        pixelated: whether enlarging shows the pixels as squares instead of smoothing them.
    """
    from PIL import Image  # noqa: PLC0415 (slow to import)

    values = np.nan_to_num(np.asarray(image, dtype=np.float64), nan=0.0)
    bytes_ = np.round(255 * values.clip(0, 1)).astype(np.uint8)
    made = Image.fromarray(bytes_[..., 0] if bytes_.shape[-1] == 1 else bytes_)
    made.thumbnail((largest, largest), Image.Resampling.BOX)
    buffer = io.BytesIO()
    made.save(buffer, format="PNG", optimize=True)
    source = base64.b64encode(buffer.getvalue()).decode()
    return element(
        "img",
        src=f"data:image/png;base64,{source}",
        alt=alt,
        width=str(made.width),
        height=str(made.height),
        class_="pixelated" if pixelated else "smooth",
    )
