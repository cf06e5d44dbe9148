"""How well fitted networks say their signals."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.zoo.signal_fit import FittedSignals


def signal_to_noise(
    values: Float[Tensor, "networks points channels"], fitted: FittedSignals
) -> dict[str, list[float]]:
    """The root mean squared error, and the ratio of each signal's power to that of its error.

    Args:
        values: the signals.
        fitted: the networks and their errors.

    Returns:
        The columns ``error``, and ``snr`` in dB.
    """
    size = values.double().square().mean((1, 2)).sqrt()
    error = fitted.error.double().clamp_min(1e-12)
    return {"error": fitted.error.tolist(), "snr": (20 * torch.log10(size / error)).tolist()}
