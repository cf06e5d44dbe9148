"""Fitting SIRENs to images, many at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaxtyping import Float
from torch import Tensor

from weightspace.errors import DataError
from weightspace.zoo.domains import PixelGrid
from weightspace.zoo.signal_fit import LEARNING_RATE, FittedSignals, Samples, fit_signals
from weightspace.zoo.siren import PUBLISHED, SirenVariant


def fit_inrs(
    images: Float[Tensor, "networks height width channels"],
    *,
    seeds: Sequence[int],
    hidden: Sequence[int] = (32, 32),
    variant: SirenVariant = PUBLISHED,
    steps: int = 100,
    learning_rate: float = LEARNING_RATE,
    target_psnr: float | None = None,
    chunk: int = 32,
    progress: Callable[[int], None] | None = None,
) -> FittedSignals:
    """Fit one SIREN to each image, see :func:`weightspace.zoo.signal_fit.fit_signals`.

    Args:
        images: values in [0, 1].
        seeds: one for each network, the source of its initial values.
        hidden: the hidden layers' sizes.
        variant: initialisation, frequencies and offset.
        steps: the most updates a network gets.
        learning_rate: of Adam.
        target_psnr: a network that has reached this stops, while the others go on.
        chunk: how many networks share an optimiser.
        progress: called with the number of networks that a chunk has finished.

    Raises:
        DataError: the images are not finite values in [0, 1], or the seeds do not match them.
        ModelError: the options make no fit.

    >>> import torch
    >>> fitted = fit_inrs(torch.rand(2, 5, 5, 1), seeds=[1, 2], hidden=[8], steps=3)
    >>> fitted.state["seq.0.weight"].shape, fitted.steps
    (torch.Size([2, 8, 2]), tensor([3, 3]))
    """
    check_images("images", images)
    if len(seeds) != len(images):
        raise DataError(
            "seeds", expected=f"one for each of {len(images)} images", found=str(len(seeds))
        )
    return fit_signals(
        [image_samples(images)],
        seeds=seeds,
        hidden=hidden,
        variant=variant,
        steps=steps,
        learning_rate=learning_rate,
        target_error=0.0 if target_psnr is None else 10 ** (-target_psnr / 20),
        chunk=chunk,
        progress=progress,
    )


def image_samples(images: Float[Tensor, "networks height width channels"]) -> Samples:
    """Images as signals on a grid of pixels."""
    return Samples(PixelGrid(*images.shape[1:3]), images.flatten(1, 2))


def check_images(subject: str, images: Tensor) -> None:
    """Check that images can be fitted.

    Raises:
        DataError: naming what is wrong with them.
    """
    shaped = "a floating-point tensor [images, height, width, channels]"
    if images.ndim != 4 or not images.is_floating_point():
        raise DataError(
            subject,
            expected=shaped,
            found=f"{str(images.dtype).removeprefix('torch.')} of shape {tuple(images.shape)}",
            hint="Divide integers by 255, add a last dimension of 1 for grey images.",
        )
    if images.numel() == 0:
        raise DataError(
            subject, expected=f"{shaped} with no empty side", found=f"shape {tuple(images.shape)}"
        )
    low, high = (float(value) for value in images.aminmax())
    if not (low >= 0.0 and high <= 1.0):
        raise DataError(
            subject,
            expected="values in [0, 1]",
            found=f"values from {low:g} to {high:g}",
            hint="Scale the images; replace NaN.",
        )
