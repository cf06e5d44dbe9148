"""The images of a sweep: chosen, made smaller, and divided once for all runs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from weightspace.errors import DataError
from weightspace.zoo.data_folder import images_of

Array = npt.NDArray[Any]
Part = tuple[Float[Tensor, "n channels height width"], Int[Tensor, " n"]]

_VALIDATION = 0.1


@dataclass(frozen=True, eq=False)
class SweepData:
    """Images as bytes, channels first, in three parts; cheap to send to another process.

    Args:
        name: of the set.
        images: of each part: ``train``, ``validation``, ``test``.
        labels: class indices of each part.
        classes: how many.
    """

    name: str
    images: dict[str, UInt8[Array, "n channels height width"]]
    labels: dict[str, Int[Array, " n"]]
    classes: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        channels, height, width = self.images["train"].shape[1:]
        return channels, height, width

    @cached_property
    def sha256(self) -> str:
        """A hash of all images and labels."""
        digest = hashlib.sha256()
        for part, images in self.images.items():
            digest.update(f"{part} {images.shape};".encode())
            digest.update(images.tobytes())
            digest.update(self.labels[part].tobytes())
        return digest.hexdigest()

    def as_dict(self) -> dict[str, Any]:
        """What tells these images from others."""
        counts = {part: len(images) for part, images in self.images.items()}
        return {"name": self.name, "shape": [*self.shape], **counts, "sha256": self.sha256[:16]}

    def tensors(self, device: str = "cpu") -> dict[str, Part]:
        """Each part on a device, every channel of mean 0 and deviation 1 over training images."""
        train = self.images["train"]
        mean = train.mean((0, 2, 3), keepdims=True, dtype=np.float64)
        spread = train.std((0, 2, 3), keepdims=True, dtype=np.float64) + 1e-6
        return {
            part: (
                torch.from_numpy(((own - mean) / spread).astype(np.float32)).to(device),
                torch.from_numpy(self.labels[part]).to(device),
            )
            for part, own in self.images.items()
        }


def sweep_data(
    name: str, *, size: int = 0, train: int = 0, validation: int = 0, test: int = 0
) -> SweepData:
    """Read images, choose some at random, and make them smaller.

    Args:
        name: a set of :data:`weightspace.zoo.data_folder.IMAGE_SETS`, or an ``.npz`` file.
        size: height and width that larger images are averaged down to; 0 leaves them.
        train: training images; 0 takes all but those for validation.
        validation: of the training images, for choices; 0 takes a tenth.
        test: test images; 0 takes all.

    Raises:
        DataError: there is no such set, there are too few images, or none to test on.
        FileError: a file cannot be read.

    >>> sweep_data("digits", train=100).as_dict()["train"]
    100
    """
    found = images_of(name)
    there = len(found.train)
    validation = validation or max(1, int(there * _VALIDATION))
    train = train or there - validation
    if not len(found.test) or train < 1 or train + validation > there:
        raise DataError(
            name,
            expected=f"{train} training and {validation} validation images, and some to test on",
            found=f"{there} training and {len(found.test)} test images",
        )
    chosen = found.subset(train + validation, test or len(found.test))
    order = torch.randperm(train + validation, generator=torch.Generator().manual_seed(0)).numpy()
    images, labels = _bytes(chosen.train, size), chosen.train_labels.numpy()
    first, second = order[:train], order[train:]
    return SweepData(
        Path(name).stem if _is_file(name) else name,
        {
            "train": images[first],
            "validation": images[second],
            "test": _bytes(chosen.test, size),
        },
        {
            "train": labels[first],
            "validation": labels[second],
            "test": chosen.test_labels.numpy(),
        },
        len(found.class_names),
    )


def _is_file(name: str) -> bool:
    return name.endswith(".npz")


def _bytes(images: Float[Tensor, "n height width channels"], size: int) -> Array:
    first = images.permute(0, 3, 1, 2)
    if size and size < max(first.shape[2:]):
        first = torch.nn.functional.adaptive_avg_pool2d(first, (size, size))
    made: Array = (first * 255).round().to(torch.uint8).contiguous().numpy()
    return made
