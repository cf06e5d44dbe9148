"""Where real data lies, and sets of images by name."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from weightspace.errors import DataError, FileError, reason_of, similar_name
from weightspace.zoo.images import ImageSet, digits_images, load_images

VARIABLE = "WEIGHTSPACE_DATA"
DEFAULT = Path("../shared/data")

Array = npt.NDArray[Any]


def data_file(name: str) -> Path:
    """The path of a data file, such as ``images/mnist.npz``.

    The folder is the environment variable ``WEIGHTSPACE_DATA``, by default ``../shared/data``.

    Raises:
        FileError: it is not there.
    """
    path = Path(os.environ.get(VARIABLE) or DEFAULT) / name
    if not path.is_file():
        raise FileError(
            path,
            expected="a data file",
            found="nothing",
            hint=f"Set {VARIABLE} to the folder that holds {name}.",
        )
    return path


def named_images(name: str) -> ImageSet:
    """Read a set of images by its name.

    Those of the data folder are read there. MNIST, Fashion-MNIST and CIFAR-10 are otherwise
    downloaded by torchvision, where it is installed.

    Args:
        name: ``digits``, ``mnist``, ``fashion-mnist``, ``cifar10-jpeg`` (all images, as
            JPEG, about 30 dB) or ``cifar10-lossless`` (2,000 training images).

    Raises:
        DataError: there is no set of this name.
        FileError: its file is not there, or cannot be read.

    >>> named_images("digits").shape
    (8, 8, 1)
    """
    if name not in IMAGE_SETS:
        raise DataError(
            "images",
            expected=f"one of {', '.join(IMAGE_SETS)}, or an .npz file",
            found=repr(name),
            hint=similar_name(name, IMAGE_SETS),
        )
    return IMAGE_SETS[name]()


def images_of(source: str) -> ImageSet:
    """Images by the name of their set, or of an ``.npz`` file.

    Args:
        source: a name as for :func:`named_images`, or a path as for
            :func:`~weightspace.zoo.images.load_images`.

    Raises:
        DataError: it is neither.
        FileError: the file is not there, or cannot be read.
    """
    if source not in IMAGE_SETS and (source.endswith(".npz") or Path(source).is_file()):
        return load_images(Path(source))
    return named_images(source)


def _mnist() -> ImageSet:
    return _from_file("images/mnist.npz", "MNIST")


def _fashion_mnist() -> ImageSet:
    return _from_file("images/fashion_mnist_20k.npz", "FashionMNIST")


def _from_file(name: str, download: str) -> ImageSet:
    try:
        return load_images(data_file(name))
    except FileError as error:
        if Path(error.subject).exists():
            raise
        return _downloaded(download, error)


def _downloaded(dataset: str, missing: FileError) -> ImageSet:
    """Images from torchvision, which fetches them where there is a network."""
    try:
        from torchvision import datasets  # noqa: PLC0415 (optional, and slow to import)
    except ImportError as error:
        raise missing from error
    folder = Path.home() / ".cache" / "weightspace"
    try:
        train, test = (
            getattr(datasets, dataset)(folder, train=part, download=True) for part in (True, False)
        )
    except (OSError, RuntimeError) as error:
        raise FileError(
            dataset,
            expected="a download",
            found=reason_of(error),
            hint=f"Without a network, set {VARIABLE} to a folder that holds the images.",
        ) from error
    return ImageSet.of(
        dataset,
        np.asarray(train.data),
        np.asarray(train.targets),
        np.asarray(test.data),
        np.asarray(test.targets),
        class_names=train.classes,
    )


def _cifar10_jpeg() -> ImageSet:
    try:
        path = data_file("images/cifar10_jpeg.npz")
    except FileError as error:
        return _downloaded("CIFAR10", error)
    with np.load(path, allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    images = {
        part: _decoded(arrays[f"{part}_jpeg"], arrays[f"{part}_offsets"])
        for part in ("train", "test")
    }
    return ImageSet.of(
        "cifar10-jpeg",
        images["train"],
        arrays["y_train"],
        images["test"],
        arrays["y_test"],
        class_names=[str(name) for name in arrays["classes"]],
    )


def _decoded(joined: Array, offsets: Array) -> Array:
    from PIL import Image  # noqa: PLC0415 (only these images need it)

    content = joined.tobytes()
    bounds = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
    return np.stack([np.asarray(Image.open(io.BytesIO(content[a:b]))) for a, b in bounds])


def _cifar10_lossless() -> ImageSet:
    with np.load(data_file("images/cifar10_2k_lossless.npz"), allow_pickle=False) as file:
        names = [str(name) for name in file["class_names"]]
        return ImageSet.of("cifar10-lossless", file["x"], file["y"], class_names=names)


IMAGE_SETS: dict[str, Callable[[], ImageSet]] = {
    "digits": digits_images,
    "mnist": _mnist,
    "fashion-mnist": _fashion_mnist,
    "cifar10-jpeg": _cifar10_jpeg,
    "cifar10-lossless": _cifar10_lossless,
}
"""The sets of images that recipes and experiments know by name."""
