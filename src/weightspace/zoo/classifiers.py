"""The recipe ``classifiers``: one architecture, many seeds and training sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from weightspace.errors import ModelError, require_between
from weightspace.graph import GraphSpec
from weightspace.zoo.classifying import Logits
from weightspace.zoo.cnn_zoo import small_cnn_spec
from weightspace.zoo.image_mlp import ImageMlp, image_mlp_spec
from weightspace.zoo.image_recipe import ImageRecipe
from weightspace.zoo.pictures import PictureChoice
from weightspace.zoo.rebuilding import build_network
from weightspace.zoo.small_cnn import SMALLEST_SIDE, SmallCnnStack, known_activation
from weightspace.zoo.stack_training import OptimiserChoice

KINDS = ("mlp", "cnn")


@dataclass(frozen=True, kw_only=True)
class Classifiers(ImageRecipe):
    """Image classifiers for domain adaptation: they differ in seed and training images.

    Navon et al. 2023, section 6.2. Each is trained by Adam on a random subset of the training
    images; test images are seen by none.

    Args:
        grey: whether colours become their luminance; a CNN needs it.
        kind: ``mlp``, or ``cnn`` for the network of the small CNN zoo.
        hidden: the MLP's hidden layers.
        activation: one of :data:`weightspace.zoo.small_cnn.ACTIVATIONS`.
        subset: the share of the training images that each network gets.
        learning_rate: of Adam.
        weight_decay: added to the gradient.
    """

    name: ClassVar[str] = "classifiers"

    checkpoints: int = 1
    images: str = "cifar10-jpeg"
    side: int = 16
    measured: int = 5000
    grey: bool = True
    kind: str = "mlp"
    hidden: tuple[int, ...] = (64, 64)
    activation: str = "relu"
    subset: float = 0.5
    learning_rate: float = 1e-3
    weight_decay: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        known_activation(self.activation)
        require_between("subset", self.subset, 1e-6, 1.0)
        OptimiserChoice("adam", self.learning_rate, self.weight_decay)
        if self.kind not in KINDS:
            raise ModelError("kind", expected=f"one of {', '.join(KINDS)}", found=self.kind)
        if self.kind == "cnn" and not self.grey:
            raise ModelError("grey", expected="grey images for a CNN", found="colours")

    @property
    def choice(self) -> PictureChoice:
        """Which images the networks are trained on."""
        return PictureChoice(self.images, grey=self.grey, side=self.side)

    @property
    def smallest_side(self) -> int:
        """See :class:`~weightspace.zoo.image_recipe.ImageRecipe`."""
        return SMALLEST_SIDE if self.kind == "cnn" else 1

    def specs(self) -> Sequence[GraphSpec]:
        """The one spec."""
        if self.kind == "cnn":
            return [small_cnn_spec(self.activation, self.pictures.classes)]
        return [image_mlp_spec(self.sizes(), self.activation)]

    def spec_index(self, part: int) -> int:
        """All networks have one spec."""
        return 0

    def drawn(self, number: int) -> dict[str, Any]:
        """The architecture and the optimiser, the same for all networks."""
        cnn = {"architecture": "small-cnn"}
        mlp = {"architecture": "image-mlp", "sizes": list(self.sizes())}
        return {
            **(cnn if self.kind == "cnn" else mlp),
            "activation": self.activation,
            "optimiser": "adam",
            "learning_rate": self.learning_rate,
            "weight_decay": self.weight_decay,
            "training_fraction": self.subset,
        }

    def sizes(self) -> tuple[int, ...]:
        """The numbers of neurons of an MLP."""
        channels, height, width = self.pictures.shape
        return (channels * height * width, *self.hidden, self.pictures.classes)

    def initial(self, row: Mapping[str, Any]) -> nn.Module:
        """Torch's own initial weights."""
        return build_network(row)

    def logits(self, modules: Sequence[nn.Module], rows: Sequence[Mapping[str, Any]]) -> Logits:
        """Run a stack of MLPs or CNNs."""
        if isinstance(modules[0], ImageMlp):
            return super().logits(modules, rows)
        return SmallCnnStack(self.activation, dropout=torch.zeros(len(modules)), seed=0)
