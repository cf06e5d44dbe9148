"""Images as classifiers are trained on them: channels first, grey or smaller where asked."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from weightspace.errors import DataError, ModelError, require_between
from weightspace.zoo.data_folder import images_of
from weightspace.zoo.images import ImageSet

_LUMA = (0.299, 0.587, 0.114)


@dataclass(frozen=True, eq=False)
class Pictures:
    """Training and test images as bytes; networks see them as :func:`network_inputs`.

    Args:
        name: of the set.
        train: the training images.
        train_labels: their classes.
        test: the test images.
        test_labels: their classes.
        classes: how many there are.
    """

    name: str
    train: UInt8[Tensor, "n channels height width"]
    train_labels: Int[Tensor, " n"]
    test: UInt8[Tensor, "m channels height width"]
    test_labels: Int[Tensor, " m"]
    classes: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        channels, height, width = self.train.shape[1:]
        return channels, height, width

    @property
    def sha256(self) -> str:
        """A hash of all images and labels, in hexadecimal digits."""
        digest = hashlib.sha256()
        for tensor in (self.train, self.train_labels, self.test, self.test_labels):
            digest.update(f"{tuple(tensor.shape)};".encode())
            digest.update(tensor.numpy().tobytes())
        return digest.hexdigest()

    def test_sample(self, count: int) -> tuple[Tensor, Tensor]:
        """Test images spread evenly over the set, and their classes: the same for everybody.

        Args:
            count: how many; all where there are fewer.

        Returns:
            Images as networks see them, and labels.
        """
        chosen = evenly(len(self.test), count)
        return network_inputs(as_values(self.test[chosen])), self.test_labels[chosen]


@dataclass(frozen=True)
class PictureChoice:
    """Which images, and what is made of them.

    Args:
        name: see :func:`weightspace.zoo.data_folder.named_images`; or an ``.npz`` file, see
            :func:`weightspace.zoo.images.load_images`.
        grey: whether colours become their luminance (ITU-R BT.601).
        side: the height and width that images are brought to, by averaging areas; 0 leaves
            them as they are.
    """

    name: str
    grey: bool = False
    side: int = 0

    def __post_init__(self) -> None:
        require_between("side", self.side, 0, 4096)

    def read(self) -> Pictures:
        """Read the images, once in a process.

        Raises:
            FileError: they are not there.
            DataError: there is no set of this name, or it has no test images.
        """
        return _read(self)


def pictures_of(images: ImageSet, *, grey: bool = False, side: int = 0) -> Pictures:
    """Bring a set of images into the form that classifiers are trained on.

    Args:
        images: the set.
        grey: whether colours become their luminance.
        side: the height and width; 0 for the images' own.

    Raises:
        DataError: it has no test images, or colours are neither one nor three.

    >>> images = ImageSet.of("n", torch.rand(4, 6, 6, 3), [0, 1, 2, 3], torch.rand(1, 6, 6, 3), [0])
    >>> pictures_of(images, grey=True, side=3).train.shape
    torch.Size([4, 1, 3, 3])
    """
    if not len(images.test):
        raise DataError(images.name, expected="test images to measure accuracy on", found="none")
    return Pictures(
        images.name,
        _prepared(images.train, grey, side),
        images.train_labels,
        _prepared(images.test, grey, side),
        images.test_labels,
        len(images.class_names),
    )


def as_values(pictures: UInt8[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The values in [0, 1] of images kept as bytes.

    >>> as_values(torch.tensor([0, 255], dtype=torch.uint8))
    tensor([0., 1.])
    """
    return pictures.to(torch.float32).div_(255)


def network_inputs(values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The values in [-1, 1] that classifiers see: centred, they learn faster.

    >>> network_inputs(torch.tensor([0.0, 0.5, 1.0]))
    tensor([-1.,  0.,  1.])
    """
    return values * 2 - 1


def evenly(available: int, wanted: int) -> Int[Tensor, " chosen"]:
    """Indices spread evenly over a range, all of it where there are fewer than wanted.

    >>> evenly(10, 3)
    tensor([0, 3, 6])
    """
    count = min(available, wanted)
    if count < 1:
        raise ModelError("images", expected="at least one", found=str(count))
    return torch.arange(count) * available // count


@lru_cache(maxsize=2)
def _read(choice: PictureChoice) -> Pictures:
    return pictures_of(images_of(choice.name), grey=choice.grey, side=choice.side)


def _prepared(images: Tensor, grey: bool, side: int) -> Tensor:
    """A thousand at a time: all at once would be gigabytes of temporaries."""
    return torch.cat([_prepare(part, grey, side) for part in torch.split(images, 1000)])


def _prepare(images: Tensor, grey: bool, side: int) -> Tensor:
    values = images.movedim(-1, 1)
    if grey and values.shape[1] == 3:
        weights = torch.tensor(_LUMA, dtype=values.dtype)
        values = torch.einsum("nchw,c->nhw", values, weights)[:, None]
    if side and values.shape[-2:] != (side, side):
        values = F.interpolate(values, size=(side, side), mode="area")
    return values.mul(255).round().clamp(0, 255).to(torch.uint8).contiguous()
