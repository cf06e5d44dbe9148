"""Pictures of signals in time."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from weightspace.report.figures import new_figure
from weightspace.report.palette import drawn

Array = npt.NDArray[Any]


def waveform_png(
    times: Float[Array, " points"],
    values: Float[Array, "points channels"],
    *,
    width: int,
    height: int,
    label: str = "",
) -> bytes:
    """Draw a signal as a PNG image.

    Args:
        times: the horizontal places.
        values: one curve a channel.
        width: pixels.
        height: pixels.
        label: what the horizontal axis is.
    """
    import matplotlib as mpl  # noqa: PLC0415 (slow to import)

    style: Any = {
        "axes.edgecolor": drawn("line"),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "xtick.color": drawn("muted"),
        "ytick.color": drawn("muted"),
        "axes.labelcolor": drawn("ink"),
        "font.size": 9,
    }
    with mpl.rc_context(style):
        dots = 2  # pixels a point, as on a fine screen
        figure, axes = new_figure(width / dots, height / dots)
        axes.grid(color=drawn("line"), linewidth=0.6)
        axes.set_axisbelow(True)
        axes.axhline(0, color=drawn("faint"), linewidth=0.6)
        crossings = np.count_nonzero(np.diff(np.signbit(values), axis=0))
        thin = 0.5 if crossings > width / 8 else 1.4
        for channel in range(values.shape[1]):
            axes.plot(times, values[:, channel], color=drawn(f"model-{channel}"), linewidth=thin)
        axes.set_xlim(float(times[0]), float(times[-1]))
        extent = max(float(np.abs(values).max()), 1e-9) * 1.08
        axes.set_ylim(-extent, extent)
        axes.set_xlabel(label)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=72 * dots, facecolor=drawn("card"))
    return buffer.getvalue()
