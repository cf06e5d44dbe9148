"""Where pixels lie: the coordinates that implicit representations of images are fitted on."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.errors import DataError


def pixel_axis(size: int, *, dtype: torch.dtype = torch.float32) -> Float[Tensor, " size"]:
    """The coordinates of a row of pixels: evenly spaced, both ends included.

    Args:
        size: the number of pixels; one pixel lies at 0.
        dtype: the type of the coordinates.

    Raises:
        DataError: the size is not positive.

    >>> pixel_axis(3)
    tensor([-1.,  0.,  1.])
    """
    if size < 1:
        raise DataError("image size", expected="at least one pixel a side", found=str(size))
    if size == 1:
        return torch.zeros(1, dtype=dtype)
    return torch.linspace(-1.0, 1.0, size, dtype=dtype)


def pixel_grid(
    height: int, width: int, *, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "pixels 2"]:
    """The coordinates of an image's pixels, row after row.

    The first coordinate runs along a row (x: -1 the leftmost column, 1 the rightmost), the
    second down the image (y: -1 the top row, 1 the bottom), as in the published corpus of
    Navon et al. 2023. Swapping them renders every image of that corpus transposed.

    Args:
        height: pixels from top to bottom.
        width: pixels from left to right.
        dtype: the type of the coordinates.

    >>> pixel_grid(2, 2)
    tensor([[-1., -1.],
            [ 1., -1.],
            [-1.,  1.],
            [ 1.,  1.]])
    """
    rows, columns = pixel_axis(height, dtype=dtype), pixel_axis(width, dtype=dtype)
    y, x = torch.meshgrid(rows, columns, indexing="ij")
    return torch.stack([x, y], dim=-1).reshape(-1, 2)
