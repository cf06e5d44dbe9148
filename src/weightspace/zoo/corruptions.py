"""Corruptions of images: the target domains that classifiers are adapted to."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from weightspace.errors import LARGEST_SEED, DataError, ModelError, require_between

SEVERITIES = (1, 2, 3, 4, 5)

_AT_ONCE = 1000


@dataclass(frozen=True)
class Corruption:
    """A way to spoil images, in the manner of Hendrycks and Dietterich 2019.

    What is random (noise, angles, places) is drawn for each image from the seed, so that a set
    of images is always spoilt in the same way.

    Args:
        name: one of :data:`CORRUPTIONS`.
        severity: 1 to 5.
        seed: of what is random.

    Raises:
        ModelError: there is no such corruption, severity or seed.

    >>> Corruption("contrast", severity=5)(torch.tensor([0.0, 1.0]).view(1, 1, 1, 2)).flatten()
    tensor([0.4250, 0.5750])
    """

    name: str
    severity: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        if self.name not in CORRUPTIONS:
            raise ModelError(
                "corruption", expected=f"one of {', '.join(CORRUPTIONS)}", found=str(self.name)
            )
        if self.severity not in SEVERITIES:
            raise ModelError("severity", expected="1, 2, 3, 4 or 5", found=str(self.severity))
        require_between("seed", self.seed, 0, LARGEST_SEED)

    def __call__(
        self, images: Float[Tensor, "n channels height width"]
    ) -> Float[Tensor, "n channels height width"]:
        """Spoil images.

        Args:
            images: values in [0, 1].

        Returns:
            New images of the same shape, values in [0, 1].

        Raises:
            DataError: they are not images.
        """
        if images.ndim != 4 or not images.is_floating_point():
            raise DataError(
                "images to corrupt",
                expected="floating-point values [n, channels, height, width]",
                found=f"{images.dtype} of shape {tuple(images.shape)}",
            )
        generator = torch.Generator(images.device).manual_seed(self.seed)
        corrupt = CORRUPTIONS[self.name]
        parts = [corrupt(part, self.severity, generator) for part in torch.split(images, _AT_ONCE)]
        return torch.cat(parts).clamp(0, 1) if parts else images


def gaussian_noise(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Independent normal noise of standard deviation 0.05 to 0.25."""
    noise = torch.randn(images.shape, generator=generator, dtype=images.dtype, device=images.device)
    return images + 0.05 * severity * noise


def blur(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """A Gaussian filter with a deviation of 0.4 to 2 pixels; borders are continued."""
    sigma = 0.4 * severity
    radius = min(math.ceil(3 * sigma), *(size - 1 for size in images.shape[2:]))
    places = torch.arange(-radius, radius + 1, dtype=images.dtype, device=images.device)
    kernel = torch.exp(-0.5 * (places / sigma) ** 2)
    kernel = (kernel / kernel.sum()).view(1, 1, -1, 1)
    flat = images.flatten(0, 1)[:, None]
    padded = F.pad(flat, (radius,) * 4, mode="replicate")
    return F.conv2d(F.conv2d(padded, kernel), kernel.mT).view_as(images)


def contrast(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Values drawn towards the image's mean, to 0.83 to 0.15 of their distance."""
    mean = images.mean((1, 2, 3), keepdim=True)
    return mean + (1 - 0.17 * severity) * (images - mean)


def brightness(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """0.12 to 0.6 added to all values."""
    return images + 0.12 * severity


def rotation(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """A turn by an angle uniform within 15 to 75 degrees to both sides."""
    angle = (2 * _uniform(images, generator) - 1) * math.radians(15 * severity)
    cos, sin, zero = angle.cos(), angle.sin(), torch.zeros_like(angle)
    return _moved(images, torch.stack([cos, -sin, zero, sin, cos, zero], 1))


def translation(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """A shift in any direction by 0.05 to 0.25 of the image's size."""
    angle = 2 * math.pi * _uniform(images, generator)
    one, zero = torch.ones_like(angle), torch.zeros_like(angle)
    x, y = 0.1 * severity * angle.cos(), 0.1 * severity * angle.sin()
    return _moved(images, torch.stack([one, zero, x, zero, one, y], 1))


def inversion(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Values above 0.8, 0.6, 0.4, 0.2 or 0 become their negative (solarisation)."""
    threshold = 1 - severity / 5
    return torch.where(images >= threshold, 1 - images, images)


def pixelation(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Means over areas: 0.85 to 0.25 of the resolution, in equal pixels."""
    height, width = images.shape[2:]
    size = [max(1, round(side * (1 - 0.15 * severity))) for side in (height, width)]
    small = F.interpolate(images, size=size, mode="area")
    return F.interpolate(small, size=[height, width], mode="nearest")


def occlusion(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """A grey square of 0.1 to 0.5 of the image's size at a random place."""
    covered = torch.ones_like(images[:, 0], dtype=torch.bool)
    for dimension in (1, 2):
        size = images.shape[dimension + 1]
        side = max(1, round(0.1 * severity * size))
        start = (_uniform(images, generator) * (size - side + 1)).floor()[:, None]
        places = torch.arange(size, device=images.device)
        inside = (places >= start) & (places < start + side)
        covered &= inside[:, :, None] if dimension == 1 else inside[:, None, :]
    return images.masked_fill(covered[:, None], 0.5)


def jpeg(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Compression with qualities from 40 to 5, image by image.

    Raises:
        DataError: images are neither grey nor of three colours.
    """
    from PIL import Image  # noqa: PLC0415 (only this needs it)

    if images.shape[1] not in (1, 3):
        raise DataError("images for JPEG", expected="1 or 3 channels", found=str(images.shape[1]))
    quality = (40, 25, 15, 8, 5)[severity - 1]
    values = images.mul(255).round().clamp(0, 255).to(torch.uint8).movedim(1, -1).cpu().numpy()
    read = []
    for array in values:
        file = io.BytesIO()
        Image.fromarray(array[..., 0] if array.shape[-1] == 1 else array).save(
            file, "JPEG", quality=quality
        )
        read.append(np.asarray(Image.open(file)).reshape(array.shape))
    return torch.from_numpy(np.stack(read)).movedim(-1, 1).to(images) / 255


CORRUPTIONS: Mapping[str, Callable[[Tensor, int, torch.Generator], Tensor]] = {
    "gaussian_noise": gaussian_noise,
    "blur": blur,
    "contrast": contrast,
    "brightness": brightness,
    "rotation": rotation,
    "translation": translation,
    "inversion": inversion,
    "pixelation": pixelation,
    "occlusion": occlusion,
    "jpeg": jpeg,
}
"""Each takes images, a severity and a source of randomness; values may leave [0, 1]."""


def _uniform(images: Tensor, generator: torch.Generator) -> Float[Tensor, " n"]:
    return torch.rand(len(images), generator=generator, dtype=images.dtype, device=images.device)


def _moved(images: Tensor, rows: Float[Tensor, "n 6"]) -> Tensor:
    """Sample images bilinearly at affine coordinates; borders are continued.

    Angles are true ones on images that are as high as they are wide.
    """
    grid = F.affine_grid(rows.view(-1, 2, 3), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False)
