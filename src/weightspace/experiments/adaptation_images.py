"""The images that classifiers are adapted to, kept in the form that they see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from weightspace.tasks.adaptation import Domain
from weightspace.zoo.classifiers import Classifiers
from weightspace.zoo.corruptions import Corruption
from weightspace.zoo.pictures import as_values, evenly, network_inputs
from weightspace.zoo.store_files import write_file


@dataclass(frozen=True)
class AdaptationImages:
    """The images of each part, as bytes, and their classes.

    Args:
        arrays: of each part its images, and its classes as ``PART_labels``.
    """

    PARTS: ClassVar[tuple[str, ...]] = ("target", "validation", "test")
    arrays: Mapping[str, Tensor]

    @classmethod
    def read(cls, path: Path) -> AdaptationImages:
        """Read what :func:`keep_images` has written."""
        return cls(load_file(path))

    def domain(self, part: str, corruption: Corruption | None) -> Domain:
        """The images of a part, corrupted or as they are."""
        images = as_values(self.arrays[part])
        if corruption is not None:
            images = corruption(images)
        return Domain(network_inputs(images), self.arrays[f"{part}_labels"])


def keep_images(recipe: Classifiers, plan: Mapping[str, Any], path: Path) -> None:
    """Choose images for each part, and write them where every job finds them.

    Args:
        recipe: of the classifiers, whose images they are.
        plan: the experiment's settings.
        path: the file.
    """
    pictures = recipe.pictures
    target, validation = plan["target_images"], plan["validation_images"]
    training = evenly(len(pictures.train), target + validation)
    order = torch.randperm(len(training), generator=torch.Generator().manual_seed(0))
    chosen = {"target": training[order[:target]], "validation": training[order[target:]]}
    kept = {}
    for part, places in chosen.items():
        kept[part] = pictures.train[places]
        kept[f"{part}_labels"] = pictures.train_labels[places]
    tested = evenly(len(pictures.test), plan["test_images"])
    kept |= {"test": pictures.test[tested], "test_labels": pictures.test_labels[tested]}
    write_file(path, save(kept))
