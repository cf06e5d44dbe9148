"""The recipe that makes a zoo of implicit networks from a set of images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float

from weightspace.errors import ModelError
from weightspace.graph import GraphSpec
from weightspace.zoo.data_folder import images_of
from weightspace.zoo.images import ImageSet
from weightspace.zoo.inr_fit import image_samples
from weightspace.zoo.recipe import LocalPool, make_zoo
from weightspace.zoo.signal_fit import LEARNING_RATE, FittedSignals, Samples
from weightspace.zoo.signal_recipe import Columns, InrRecipe, SignalRecipe, split_names
from weightspace.zoo.siren import PUBLISHED, PUBLISHED_EXACT, TEXTBOOK
from weightspace.zoo.store import Zoo

Array = npt.NDArray[np.floating[Any]]

VARIANTS = {"published": PUBLISHED, "published-exact": PUBLISHED_EXACT, "textbook": TEXTBOOK}
"""The variants of SIRENs that commands know by name."""


def fit_inr_zoo(
    images: ImageSet, out: Path | str, *, recipe: InrRecipe | None = None, workers: int = 0
) -> Zoo:
    """Fit SIRENs to every image of a set and keep them as a zoo.

    The rows of the zoo have the columns ``source`` (the image's number), ``split``, ``label``,
    ``refit``, ``seed``, ``psnr`` and ``steps``. Splits go by image, so that refits of one
    image are never in two: test images stay test images, validation images are drawn from the
    training images. Interrupted or killed, it goes on where it stopped when called again, and
    on one machine the zoo is the same to the bit.

    Args:
        images: the images and their labels.
        out: the zoo's folder.
        recipe: how to fit; the default recipe if not given.
        workers: how many processes; with 0 one for each core.

    Raises:
        FileError: the folder holds something else, or a zoo of another recipe or images.
        DataError: there are too few images to split.
        WeightspaceError: a worker was killed.
    """
    return make_zoo(InrImages(images, recipe or InrRecipe()), out, engine=LocalPool(workers))


@dataclass(frozen=True, eq=False)
class InrImages(SignalRecipe):
    """SIRENs fitted to images, grey or in colour; measured by ``psnr``.

    Args:
        images: the images and their labels.
        settings: how to fit.
    """

    name: ClassVar[str] = "inr-images"
    images: ImageSet
    settings: InrRecipe = field(default_factory=InrRecipe)

    def ends(self) -> tuple[int, int]:
        """Two coordinates, and as many values as the images have channels."""
        return 2, self.images.shape[2]

    def columns(self) -> Columns:
        """Number, split and label of each image, training images first."""
        images, settings = self.images, self.settings
        labels = torch.cat([images.train_labels, images.test_labels]).tolist()
        return {
            "source": torch.cat([images.train_sources, images.test_sources]).tolist(),
            "split": split_names(
                labels,
                test=[False] * len(images.train) + [True] * len(images.test),
                validation=settings.validation,
                seed=settings.seed,
            ),
            "label": labels,
        }

    def signals(self, places: Sequence[int]) -> ImageSignals:
        """Some of the images."""
        train, test = self.images.train, self.images.test
        count = len(train)
        chosen = [train[place] if place < count else test[place - count] for place in places]
        return ImageSignals(torch.stack(chosen).numpy())

    def data(self) -> dict[str, Any]:
        """The images' name, hash and sizes."""
        images = self.images
        return {
            "images": {
                "name": images.name,
                "sha256": images.sha256,
                "shape": images.shape,
                "train": len(images.train),
                "test": len(images.test),
                "class_names": images.class_names,
            }
        }

    def as_dict(self) -> dict[str, Any]:
        """Everything needed to make the zoo again."""
        # The name that zoos have had since this was the only recipe: they can be continued.
        return {**super().as_dict(), "name": "inr"}


@dataclass(frozen=True, eq=False)
class ImageSignals:
    """Images as signals.

    Args:
        images: values in [0, 1].
    """

    images: Float[Array, "networks height width channels"]

    def samples(self) -> list[Samples]:
        """All pixels at once."""
        return [image_samples(torch.from_numpy(self.images))]

    def measures(self, spec: GraphSpec, fitted: FittedSignals) -> Columns:
        """The peak signal-to-noise ratio in dB."""
        return {"psnr": fitted.psnr.tolist()}


def inr_images(
    *,
    seed: int = 0,
    images: str = "digits",
    train: int | None = None,
    test: int | None = None,
    validation: float = 0.1,
    refits: int = 1,
    variant: str = "published",
    hidden: tuple[int, ...] = (32, 32),
    steps: int = 100,
    learning_rate: float = LEARNING_RATE,
    target_psnr: float | None = None,
) -> InrImages:
    """SIRENs of images, grey or in colour, with the image's class as label.

    Args:
        seed: of every random choice.
        images: digits, mnist, fashion-mnist, cifar10-jpeg or cifar10-lossless, or an .npz file
            with x_train, y_train, x_test and y_test.
        train: how many training images; all if not given.
        test: how many test images; all if not given.
        validation: the share of the training images for validation.
        refits: networks for each image.
        variant: published, published-exact or textbook.
        hidden: sizes of the hidden layers.
        steps: the most updates of a network.
        learning_rate: of Adam.
        target_psnr: a network that has reached this many decibels stops.

    Raises:
        ModelError: there is no such variant.
        DataError: there are no such images, or too few.
    """
    if variant not in VARIANTS:
        raise ModelError("variant", expected=f"one of {', '.join(VARIANTS)}", found=repr(variant))
    chosen = images_of(images)
    counts = [
        len(there) if wanted is None else wanted
        for wanted, there in ((train, chosen.train), (test, chosen.test))
    ]
    settings = InrRecipe(
        hidden=hidden,
        variant=VARIANTS[variant],
        steps=steps,
        learning_rate=learning_rate,
        target_psnr=target_psnr,
        refits=refits,
        seed=seed,
        validation=validation,
    )
    return InrImages(chosen.subset(*counts, seed=seed), settings)
