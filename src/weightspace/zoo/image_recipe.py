"""What recipes of image classifiers share: the images, each network's subset, the training."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from weightspace.errors import DataError, require_between
from weightspace.zoo.classifying import (
    ImageClassification,
    Logits,
    stacked_state,
    training_subset,
    vectorised,
)
from weightspace.zoo.pictures import PictureChoice, Pictures
from weightspace.zoo.stack_training import Checkpoint, OptimiserChoice, train_stack
from weightspace.zoo.trained_recipe import TrainedRecipe, derived_seed


@dataclass(frozen=True, kw_only=True)
class ImageRecipe(TrainedRecipe):
    """Image classifiers. Colours become grey, unless a recipe says otherwise.

    Every row has the columns ``architecture``, ``images``, ``channels`` and ``classes``, what
    else :func:`weightspace.zoo.rebuilding.build_network` needs, ``optimiser``,
    ``learning_rate`` and ``weight_decay``, ``training_images`` and ``subset_seed`` (from which
    :func:`weightspace.zoo.classifying.training_subset` draws the network's images again), and
    loss and accuracy on test images and on at most 1000 of its own.

    Args:
        images: a set of images, see :func:`weightspace.zoo.data_folder.named_images`, or an
            ``.npz`` file, see :func:`weightspace.zoo.images.load_images`. ``cifar10-jpeg`` is
            CIFAR-10 compressed to about 30 dB.
        side: the height and width that images are brought to; 0 for their own.
        measured: how many test images accuracy is measured on.
    """

    images: str = "mnist"
    side: int = 0
    measured: int = 2000

    clip: ClassVar[float] = math.inf
    """The largest norm of a gradient."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_between("measured", self.measured, 1, 10_000_000)
        _ = self.choice

    @property
    def choice(self) -> PictureChoice:
        """Which images the networks are trained on."""
        return PictureChoice(self.images, grey=True, side=self.side)

    @property
    def smallest_side(self) -> int:
        """Of images that the networks can take."""
        return 1

    @property
    def pictures(self) -> Pictures:
        """The images, read once in a process.

        Raises:
            DataError: they are too small for the networks.
        """
        found = self.choice.read()
        if min(found.shape[1:]) < self.smallest_side:
            raise DataError(
                f"images {self.images}",
                expected=f"at least {self.smallest_side} x {self.smallest_side} pixels",
                found=f"{found.shape[1]} x {found.shape[2]}",
                hint=f"Set the option side={self.smallest_side}, or choose other images.",
            )
        return found

    @abstractmethod
    def drawn(self, number: int) -> dict[str, Any]:
        """The columns of a network's architecture and of its hyperparameters.

        ``optimiser``, ``learning_rate``, ``weight_decay`` and ``training_fraction`` are among
        them.
        """

    @abstractmethod
    def initial(self, row: Mapping[str, Any]) -> nn.Module:
        """Make the network before its training; torch's random numbers are the network's."""

    def logits(self, modules: Sequence[nn.Module], rows: Sequence[Mapping[str, Any]]) -> Logits:
        """How a stack of the networks is run."""
        return vectorised(modules[0])

    def as_dict(self) -> dict[str, Any]:
        """The settings, and a hash of the images."""
        return {**super().as_dict(), "images_sha256": self.pictures.sha256}

    def hyperparameters(self, number: int) -> dict[str, Any]:
        """All columns of a network that do not depend on its training."""
        pictures, drawn = self.pictures, self.drawn(number)
        images = round(drawn["training_fraction"] * len(pictures.train))
        return {
            "images": self.images,
            "channels": pictures.shape[0],
            "classes": pictures.classes,
            **drawn,
            "training_images": max(1, images),
            "subset_seed": derived_seed(self.network_seed(number), "subset"),
        }

    def train(self, numbers: Sequence[int]) -> list[Checkpoint]:
        """Train a stack of networks of one architecture."""
        rows = [self.hyperparameters(number) for number in numbers]
        seeds = [self.network_seed(number) for number in numbers]
        modules = [self.seeded(row, seed) for row, seed in zip(rows, seeds, strict=True)]
        available = len(self.pictures.train)
        problem = ImageClassification(
            self.logits(modules, rows),
            self.pictures,
            [training_subset(available, r["training_images"], r["subset_seed"]) for r in rows],
            seeds=[derived_seed(seed, "order") for seed in seeds],
            batch=self.batch,
            updates=self.updates,
            measured=self.measured,
        )
        optimisers = [
            OptimiserChoice(row["optimiser"], row["learning_rate"], row["weight_decay"])
            for row in rows
        ]
        state = stacked_state(modules)
        return train_stack(problem, state, optimisers, checkpoints=self.moments(), clip=self.clip)

    def seeded(self, row: Mapping[str, Any], seed: int) -> nn.Module:
        """Make the network that a row's training began with.

        Args:
            row: its columns.
            seed: its column ``seed``.
        """
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(seed)
            return self.initial(row)
