"""A zoo of implicit networks together with the images that they show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.data import DataLoader

from weightspace.graph import Batch
from weightspace.tasks.batches import NetworkBatch, batches, read_networks
from weightspace.tasks.image_edits import ImageEdit
from weightspace.tasks.rendering import ImageRenderer
from weightspace.zoo import ImageSet, InrRecipe, Zoo, fit_inr_zoo
from weightspace.zoo.data_folder import named_images


@dataclass(frozen=True)
class ImageZoo:
    """Networks fitted to some images of a set.

    Args:
        path: the zoo's folder.
        name: of the images, see :func:`weightspace.zoo.data_folder.named_images`.
        train: how many training images; None for all images there are.
        test: how many test images.
    """

    path: Path
    name: str
    train: int | None
    test: int | None

    def fit(self, plan: Mapping[str, Any], *, validation: float) -> Zoo:
        """Fit the networks, or go on with it.

        Args:
            plan: holds ``hidden`` and ``steps``.
            validation: the share of the training images whose networks are for validation.
        """
        recipe = InrRecipe(
            hidden=tuple(plan["hidden"]), steps=plan["steps"], validation=validation, seed=0
        )
        return fit_inr_zoo(self.images, self.path, recipe=recipe)

    @cached_property
    def images(self) -> ImageSet:
        """The images; the same ones every time."""
        images = named_images(self.name)
        if self.train is None:
            return images
        return images.subset(self.train, self.test or len(images.test), seed=0)

    @cached_property
    def zoo(self) -> Zoo:
        """The networks."""
        return Zoo.open(self.path)

    @cached_property
    def render(self) -> ImageRenderer:
        """Renders networks at the size of the images."""
        height, width, _ = self.images.shape
        return ImageRenderer(self.zoo.spec, height, width)

    def rows(self, split: str) -> list[int]:
        """The networks of a split."""
        return [int(row) for row in self.zoo.split(split)]

    def networks(self, rows: Sequence[int]) -> Batch:
        """Some of the networks."""
        return read_networks(self.zoo, rows)

    def originals(self, rows: Sequence[int]) -> Float[Tensor, "n height width channels"]:
        """The images that some networks were fitted to."""
        images = self.images
        together = torch.cat([images.train, images.test])
        sources = torch.cat([images.train_sources, images.test_sources]).tolist()
        places = {source: place for place, source in enumerate(sources)}
        wanted = self.zoo.column("source")[list(rows)].tolist()
        return together[[places[source] for source in wanted]]

    def batches(
        self, split: str, edit: ImageEdit, *, batch_size: int = 128, seed: int | None = None
    ) -> DataLoader[NetworkBatch]:
        """Load the networks of a split with edited images, shuffled if a seed is given."""
        rows = self.rows(split)
        return batches(self.zoo, rows, edit(self.originals(rows)), batch_size=batch_size, seed=seed)
