"""The recipe ``cnn-wild-park``: many architectures, and accuracy as training goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from weightspace.graph import GraphSpec
from weightspace.importers.from_module import module_spec
from weightspace.zoo.image_recipe import ImageRecipe
from weightspace.zoo.trained_recipe import derived_seed, log_uniform
from weightspace.zoo.wild_cnn import WildArchitecture, WildCnn

LEARNING_RATES, DECAYS = (3e-4, 1e-2), (1e-5, 1e-1)


@dataclass(frozen=True, kw_only=True)
class CnnWildPark(ImageRecipe):
    """CNNs of 2 to 8 layers, no two parts of one architecture, trained by AdamW.

    Kofinas et al. 2024: the CNN Wild Park. Networks of a part have one architecture and share
    a split, so that architectures of the test split are unseen.
    """

    name: ClassVar[str] = "cnn-wild-park"
    by_part: ClassVar[bool] = True

    count: int = 128
    siblings: int = 2
    updates: int = 1000
    checkpoints: int = 8

    def specs(self) -> Sequence[GraphSpec]:
        """A spec for each part."""
        pictures = self.pictures
        return [_spec(a, pictures.shape, pictures.classes) for a in self.architectures()]

    def spec_index(self, part: int) -> int:
        """Every part has an architecture of its own."""
        return part

    def architectures(self) -> tuple[WildArchitecture, ...]:
        """The architectures of all parts, all different."""
        return _architectures(self.seed, self.parts())

    def drawn(self, number: int) -> dict[str, Any]:
        """The architecture, and what is drawn for a network."""
        random = self.random(number)
        return {
            "architecture": "wild-cnn",
            **self.architectures()[number // self.siblings].columns(),
            "optimiser": "adamw",
            "learning_rate": log_uniform(random, *LEARNING_RATES),
            "weight_decay": log_uniform(random, *DECAYS),
            "training_fraction": 1.0,
        }

    def initial(self, row: Mapping[str, Any]) -> nn.Module:
        """Torch's own initial weights."""
        return WildCnn.from_row(row)


@lru_cache(maxsize=4)
def _architectures(seed: int, count: int) -> tuple[WildArchitecture, ...]:
    """Draw architectures, again where one has been drawn before."""
    found: dict[WildArchitecture, None] = {}
    attempt = 0
    while len(found) < count:
        random = np.random.default_rng(derived_seed(seed, "architecture", attempt))
        found.setdefault(WildArchitecture.draw(random))
        attempt += 1
    return tuple(found)


@lru_cache(maxsize=1024)
def _spec(architecture: WildArchitecture, image: tuple[int, int, int], classes: int) -> GraphSpec:
    network = WildCnn(architecture, channels=image[0], classes=classes)
    return module_spec(network, torch.zeros(1, *image))
