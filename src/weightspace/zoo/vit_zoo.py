"""The recipe ``vit-zoo``: small vision transformers with random hyperparameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import torch
from torch import nn

from weightspace.errors import ModelError, require_between
from weightspace.graph import GraphSpec
from weightspace.importers.from_module import module_spec
from weightspace.zoo.image_recipe import ImageRecipe
from weightspace.zoo.small_vit import SmallVit
from weightspace.zoo.trained_recipe import derived_seed, log_uniform, one_of
from weightspace.zoo.transformer_block import (
    LARGEST_SHAPES,
    TransformerShape,
    draw_shapes,
    scale_matrices,
)

FRACTIONS = (0.05, 0.2, 1.0)
LEARNING_RATES = {"adamw": (3e-4, 1e-2), "sgd": (1e-2, 0.5), "rmsprop": (1e-4, 3e-3)}
DECAYS, SCALES = (1e-6, 1e-2), (0.5, 2.0)


@dataclass(frozen=True, kw_only=True)
class VitZoo(ImageRecipe):
    """Vision transformers of 1 to 3 blocks that classify small images.

    Optimiser, learning rate, decay, initial scale and the share of the training images are
    drawn for each network; parts take the drawn architectures in turn.

    Args:
        patch: the side of a patch, a divisor of the images' height and width.
        shapes: how many architectures are drawn.
    """

    name: ClassVar[str] = "vit-zoo"
    clip: ClassVar[float] = 1.0

    siblings: int = 8
    updates: int = 1000
    checkpoints: int = 4
    batch: int = 32
    patch: int = 7
    shapes: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        require_between("shapes", self.shapes, 1, LARGEST_SHAPES)
        require_between("patch", self.patch, 1, 4096)
        if self.side % self.patch:
            raise ModelError(
                "patch", expected=f"a divisor of the side {self.side}", found=str(self.patch)
            )

    def specs(self) -> Sequence[GraphSpec]:
        """A spec for each architecture."""
        pictures, shapes = self.pictures, self._shapes()[: self.parts()]
        return [_spec(shape, pictures.shape, self.patch, pictures.classes) for shape in shapes]

    def spec_index(self, part: int) -> int:
        """Parts take the architectures in turn."""
        return part % self.shapes

    def drawn(self, number: int) -> dict[str, Any]:
        """The architecture, and what is drawn for a network."""
        random = self.random(number)
        kind = one_of(random, tuple(LEARNING_RATES))
        _, height, width = self.pictures.shape
        return {
            "architecture": "small-vit",
            "image_height": height,
            "image_width": width,
            "patch": self.patch,
            **self._shapes()[self.spec_index(number // self.siblings)].columns(),
            "initial_scale": log_uniform(random, *SCALES),
            "optimiser": kind,
            "learning_rate": log_uniform(random, *LEARNING_RATES[kind]),
            "weight_decay": log_uniform(random, *DECAYS),
            "training_fraction": one_of(random, FRACTIONS),
        }

    def initial(self, row: Mapping[str, Any]) -> nn.Module:
        """Torch's own initial weights, the matrices scaled."""
        return scale_matrices(SmallVit.from_row(row), row["initial_scale"])

    def _shapes(self) -> tuple[TransformerShape, ...]:
        return draw_shapes(derived_seed(self.seed, self.name), self.shapes)


@lru_cache(maxsize=LARGEST_SHAPES)
def _spec(
    shape: TransformerShape, image: tuple[int, int, int], patch: int, classes: int
) -> GraphSpec:
    network = SmallVit(shape, image=image, patch=patch, classes=classes)
    return module_spec(network, torch.zeros(1, *image))
