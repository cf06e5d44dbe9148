"""Edits of images that networks are to reproduce on themselves: dilation, contrast and others."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from weightspace.errors import DataError

Images = Float[Tensor, "n height width channels"]
ImageEdit = Callable[[Images], Images]


def dilated(images: Images, *, size: int = 3) -> Images:
    """Bright regions grow: every pixel becomes the largest of its neighbourhood.

    The edit of the published style editing experiment (Zhou et al. 2023, section 4.2): a square
    of 3 x 3 pixels, once. Pixels outside the image do not count.

    Args:
        images: values in [0, 1].
        size: the square's side, odd.

    >>> import torch
    >>> dilated(torch.tensor([0.0, 0.0, 1.0, 0.0]).reshape(1, 1, 4, 1)).flatten()
    tensor([0., 1., 1., 1.])
    """
    _require_odd("size", size)
    moved = images.movedim(-1, 1)
    return F.max_pool2d(moved, size, stride=1, padding=size // 2).movedim(1, -1)


def eroded(images: Images, *, size: int = 3) -> Images:
    """Bright regions shrink: every pixel becomes the smallest of its neighbourhood.

    >>> import torch
    >>> eroded(torch.tensor([1.0, 1.0, 1.0, 0.0]).reshape(1, 1, 4, 1)).flatten()
    tensor([1., 1., 0., 0.])
    """
    return -dilated(-images, size=size)


def contrasted(images: Images, *, factor: float = 1.5) -> Images:
    """More contrast: values move away from the image's mean brightness, clipped to [0, 1].

    ``mean + factor (x - mean)``, with the mean of the grey image (Rec. 601 weights). The
    published CIFAR-10 experiment (Zhou et al. 2023, section 4.2) equalises the histogram of
    each of 3 x 3 tiles instead (CLAHE, clip limit 1); both move values apart.

    Args:
        images: values in [0, 1], grey or colour.
        factor: more than 1 for more contrast.

    >>> import torch
    >>> contrasted(torch.tensor([0.4, 0.6]).reshape(1, 1, 2, 1), factor=2.0).flatten()
    tensor([0.3000, 0.7000])
    """
    mean = _grey(images).mean(dim=(1, 2), keepdim=True)
    return (mean + factor * (images - mean)).clamp(0.0, 1.0)


def blurred(images: Images, *, size: int = 3) -> Images:
    """Less sharp: every pixel becomes the mean of its neighbourhood within the image.

    >>> import torch
    >>> blurred(torch.tensor([0.0, 0.0, 3.0, 0.0]).reshape(1, 1, 4, 1)).flatten()
    tensor([0.0000, 1.0000, 1.0000, 1.5000])
    """
    _require_odd("size", size)
    moved = images.movedim(-1, 1)
    mean = F.avg_pool2d(moved, size, stride=1, padding=size // 2, count_include_pad=False)
    return mean.movedim(1, -1)


def inverted(images: Images) -> Images:
    """Bright becomes dark: ``1 - x``. The edit that one bias and one sign could do.

    >>> import torch
    >>> inverted(torch.tensor([0.25]).reshape(1, 1, 1, 1)).item()
    0.75
    """
    return 1.0 - images


IMAGE_EDITS: Mapping[str, ImageEdit] = {
    "dilate": dilated,
    "erode": eroded,
    "contrast": contrasted,
    "blur": blurred,
    "invert": inverted,
}
"""The edits by name, with the strengths of their experiments."""


def _grey(images: Images) -> Images:
    channels = images.shape[-1]
    if channels == 1:
        return images
    if channels != 3:
        raise DataError("images", expected="1 or 3 channels", found=f"{channels} channels")
    weights = images.new_tensor([0.299, 0.587, 0.114])
    return (images * weights).sum(dim=-1, keepdim=True)


def _require_odd(name: str, value: int) -> None:
    if value < 1 or value % 2 == 0:
        raise DataError(name, expected="an odd number of pixels", found=str(value))
