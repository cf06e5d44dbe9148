"""The images a command is given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weightspace.zoo import ImageSet


def read_images(
    path: Path | None, *, train: int | None = None, test: int | None = None, seed: int = 0
) -> ImageSet:
    """Read images from a file, or take scikit-learn's digits; choose some of them.

    Args:
        path: an .npz file, or None.
        train: how many training images; all if None.
        test: how many test images; all if None.
        seed: of the choice.

    Raises:
        FileError: the file cannot be used.
        DataError: there are fewer images.
    """
    from weightspace.zoo import digits_images, load_images

    images = digits_images() if path is None else load_images(path)
    if train is None and test is None:
        return images
    return images.subset(
        len(images.train) if train is None else train,
        len(images.test) if test is None else test,
        seed=seed,
    )
