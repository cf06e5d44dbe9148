"""Images with labels, from files or from scikit-learn: what implicit networks are fitted to."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from torch import Tensor

from weightspace.errors import DataError, FileError, reason_of
from weightspace.zoo.splits import split_by_group

Array = npt.NDArray[Any]
Values = Array | Tensor | Sequence[Any]

KEYS = ("x_train", "y_train", "x_test", "y_test")
"""The arrays that an image file must hold."""

_GREY_OR_COLOUR = (1, 2, 3, 4)
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError)


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Training and test images with their labels.

    Args:
        name: for recipes and reports.
        train: values in [0, 1].
        train_labels: a class index for each.
        test: the given test images; there may be none.
        test_labels: a class index for each.
        class_names: one for each class index.
        train_sources: each image's number in the whole set, training images first; a subset
            keeps them, so that its networks can be traced to their images.
        test_sources: the same for the test images.
    """

    name: str
    train: Float[Tensor, "n height width channels"]
    train_labels: Int[Tensor, " n"]
    test: Float[Tensor, "m height width channels"]
    test_labels: Int[Tensor, " m"]
    class_names: tuple[str, ...]
    train_sources: Int[Tensor, " n"]
    test_sources: Int[Tensor, " m"]

    @classmethod
    def of(
        cls,
        name: str,
        train: Values,
        train_labels: Values,
        test: Values | None = None,
        test_labels: Values | None = None,
        *,
        class_names: Sequence[str] | None = None,
    ) -> ImageSet:
        """Make a set from arrays, tensors or lists of images of one size.

        Args:
            name: for recipes and reports.
            train: unsigned bytes, or floating-point values in [0, 1]; ``[n, h, w]`` or
                ``[n, h, w, c]``.
            train_labels: class indices.
            test: like ``train``; none if not given.
            test_labels: class indices.
            class_names: the digits 0, 1, ... if not given.

        Raises:
            DataError: images or labels cannot be used, or do not belong together.

        >>> images = ImageSet.of("noise", np.zeros((3, 5, 5), dtype=np.uint8), [0, 1, 1])
        >>> images.train.shape, images.class_names
        (torch.Size([3, 5, 5, 1]), ('0', '1'))
        """
        x = as_images(f"{name}, training images", train)
        y = _as_labels(f"{name}, training labels", train_labels, len(x))
        if test is None or test_labels is None:
            test_x, test_y = x[:0], y[:0]
        else:
            test_x = as_images(f"{name}, test images", test)
            test_y = _as_labels(f"{name}, test labels", test_labels, len(test_x))
        if test_x.shape[1:] != x.shape[1:]:
            raise DataError(
                f"{name}, test images",
                expected=f"images of the training images' shape {tuple(x.shape[1:])}",
                found=f"{tuple(test_x.shape[1:])}",
            )
        classes = 1 + int(max(y.max(), test_y.max() if len(test_y) else 0))
        names = tuple(map(str, class_names or range(classes)))
        if len(names) < classes:
            raise DataError(
                f"{name}, class names", expected=f"{classes} names", found=str(len(names))
            )
        numbers = torch.arange(len(x) + len(test_x))
        return cls(name, x, y, test_x, test_y, names, numbers[: len(x)], numbers[len(x) :])

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of an image."""
        height, width, channels = self.train.shape[1:]
        return height, width, channels

    @property
    def sha256(self) -> str:
        """A hash of all images and labels, in hexadecimal digits."""
        digest = hashlib.sha256()
        for tensor in (self.train, self.train_labels, self.test, self.test_labels):
            digest.update(f"{tensor.dtype} {tuple(tensor.shape)};".encode())
            digest.update(tensor.contiguous().numpy().tobytes())
        return digest.hexdigest()

    def subset(self, train: int, test: int, *, seed: int = 0) -> ImageSet:
        """Choose images at random.

        Args:
            train: how many training images.
            test: how many test images.
            seed: of the choice.

        Raises:
            DataError: there are not as many.
        """
        generator = torch.Generator().manual_seed(seed)
        chosen = []
        for what, wanted, there in (
            ("training", train, len(self.train)),
            ("test", test, len(self.test)),
        ):
            if not 0 <= wanted <= there:
                raise DataError(
                    f"{self.name}, subset",
                    expected=f"at most the {there} {what} images there are",
                    found=str(wanted),
                )
            chosen.append(torch.randperm(there, generator=generator)[:wanted].sort().values)
        first, second = chosen
        return ImageSet(
            self.name,
            self.train[first],
            self.train_labels[first],
            self.test[second],
            self.test_labels[second],
            self.class_names,
            self.train_sources[first],
            self.test_sources[second],
        )


def load_images(path: Path | str, *, name: str | None = None) -> ImageSet:
    """Read an ``.npz`` file with ``x_train``, ``y_train``, ``x_test`` and ``y_test``.

    Images are unsigned bytes or values in [0, 1], ``[n, h, w]`` or ``[n, h, w, c]``; an array
    ``class_names`` may name the classes. Nothing in the file is executed.

    Args:
        path: the file.
        name: of the set; the file's name without its ending if not given.

    Raises:
        FileError: the file is missing, damaged, unsafe or lacks arrays.
        DataError: the images or labels cannot be used.
    """
    path = Path(path)
    arrays = _read_arrays(path)
    missing = [key for key in KEYS if key not in arrays]
    if missing:
        raise FileError(
            path,
            expected=f"arrays {', '.join(KEYS)}",
            found=f"{', '.join(arrays) or 'none'}; {', '.join(missing)} missing",
            hint="Save it with numpy.savez_compressed(path, x_train=..., y_train=..., ...).",
        )
    names = arrays.get("class_names")
    return ImageSet.of(
        name or path.stem,
        *(arrays[key] for key in KEYS),
        class_names=None if names is None else [str(item) for item in names.ravel()],
    )


def digits_images(*, seed: int = 0) -> ImageSet:
    """The 1797 handwritten digits of 8 x 8 pixels that come with scikit-learn.

    They have no test set of their own: a fifth of each class is set aside.

    Args:
        seed: of the test set; keep it to compare results.
    """
    from sklearn.datasets import load_digits  # noqa: PLC0415 (slow to import)

    digits = load_digits()
    images = digits.images.astype(np.float32) / 16
    parts = split_by_group(
        range(len(images)), {"train": 0.8, "test": 0.2}, seed, labels=digits.target
    )
    train, test = parts["train"], parts["test"]
    labels = digits.target
    return ImageSet.of("digits", images[train], labels[train], images[test], labels[test])


def as_images(subject: str, values: Values) -> Float[Tensor, "n height width channels"]:
    """Bring images into the form ``[n, height, width, channels]`` with values in [0, 1].

    Raises:
        DataError: sizes differ, the type or shape is wrong, or values are out of range.
    """
    array = _as_array(subject, values)
    if array.ndim == 3:
        array = array[..., None]
    if array.ndim != 4 or array.shape[-1] not in _GREY_OR_COLOUR:
        first = array.ndim == 4 and array.shape[1] in _GREY_OR_COLOUR
        raise DataError(
            subject,
            expected="shape [n, height, width] or [n, height, width, channels]",
            found=str(array.shape),
            hint="Move the channels last: images.transpose(0, 2, 3, 1)." if first else "",
        )
    if array.size == 0:
        raise DataError(subject, expected="at least one image", found=f"shape {array.shape}")
    if array.dtype == np.uint8:
        array = array.astype(np.float32) / 255
    elif array.dtype.kind != "f":
        raise DataError(
            subject,
            expected="unsigned bytes, or floating-point values in [0, 1]",
            found=f"type {array.dtype}",
            hint="Convert with images.astype(numpy.uint8) if the values are 0 to 255.",
        )
    low, high = array.min(), array.max()
    if not (low >= 0 and high <= 1):
        raise DataError(
            subject,
            expected="values in [0, 1]",
            found=f"values from {low:g} to {high:g}",
            hint="Divide by the largest value; replace NaN.",
        )
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))


def _as_array(subject: str, values: Values) -> Array:
    """Stack a list of images, after checking that they can be stacked."""
    if isinstance(values, Tensor):
        return np.asarray(values.detach().cpu().numpy())
    if not isinstance(values, np.ndarray):
        parts = [np.asarray(value) for value in values]
        shapes = sorted({part.shape for part in parts})
        if len(shapes) > 1:
            raise DataError(
                subject,
                expected="images of one size",
                found=f"{len(shapes)} sizes, such as {shapes[0]} and {shapes[-1]}",
                hint="Crop or resize the images first.",
            )
        values = np.stack(parts) if parts else np.zeros((0, 0, 0, 1), dtype=np.float32)
    if values.dtype == object:
        raise DataError(
            subject,
            expected="an array of numbers",
            found="an array of objects",
            hint="Images of mixed sizes end up so: crop or resize them.",
        )
    return values


def _as_labels(subject: str, values: Values, count: int) -> Int[Tensor, " n"]:
    array = values.numpy() if isinstance(values, Tensor) else np.asarray(values)
    if array.dtype.kind not in "iu" or array.shape != (count,):
        raise DataError(
            subject,
            expected=f"{count} class indices, one for each image",
            found=f"type {array.dtype}, shape {array.shape}",
        )
    if count and int(array.min()) < 0:
        raise DataError(subject, expected="class indices from 0", found=str(array.min()))
    return torch.from_numpy(array.astype(np.int64))


def _read_arrays(path: Path) -> Mapping[str, Array]:
    if not path.is_file():
        raise FileError(path, expected="an .npz file", found="none")
    try:
        # Opened here, because numpy leaves files open when it gives up on them.
        with path.open("rb") as stream:
            file = np.load(stream, allow_pickle=False)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise FileError(path, expected="an .npz file", found="a single array")
            return {key: file[key] for key in file.files if key in (*KEYS, "class_names")}
    except FileError:
        raise
    except _DAMAGED as error:
        raise FileError(
            path,
            expected="an .npz file of plain arrays",
            found=reason_of(error),
            hint="The file is damaged, or holds objects, which are never unpickled.",
        ) from error
