"""The recipe ``cnn-zoo``: one small architecture, many hyperparameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from weightspace.errors import ModelError
from weightspace.graph import GraphSpec
from weightspace.importers.from_module import module_spec
from weightspace.zoo.classifying import Logits
from weightspace.zoo.image_recipe import ImageRecipe
from weightspace.zoo.small_cnn import SMALLEST_SIDE, SmallCnn, SmallCnnStack, known_activation
from weightspace.zoo.trained_recipe import derived_seed, log_uniform, one_of

INITIALISATIONS = ("he_normal", "glorot_normal", "orthogonal", "normal", "truncated_normal")
FRACTIONS = (0.1, 0.25, 0.5, 1.0)
LEARNING_RATES = {"adam": (1e-3, 2e-2), "rmsprop": (5e-4, 1e-2), "sgd": (1e-2, 0.2)}
DECAYS = (1e-8, 1e-2)
LARGEST_DROPOUT = 0.3
DEVIATIONS, GAINS = (0.03, 0.5), (0.5, 2.0)
"""Scales of initial weights: standard deviations for the normal kinds, factors for the others."""

_BY_DEVIATION = ("normal", "truncated_normal")


@dataclass(frozen=True, kw_only=True)
class CnnZoo(ImageRecipe):
    """Small CNNs of one architecture with random hyperparameters.

    Unterthiner et al. 2020: initialisation and its scale, activation, optimiser, learning
    rate, L2, dropout and the share of the training images are drawn for each network. A part
    has one activation.

    Args:
        activations: taken in turn by the parts.
    """

    name: ClassVar[str] = "cnn-zoo"

    measured: int = 5000
    activations: tuple[str, ...] = ("relu", "tanh")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.activations or len(set(self.activations)) != len(self.activations):
            raise ModelError(
                "activations", expected="at least one, none twice", found=str(self.activations)
            )
        for activation in self.activations:
            known_activation(activation)

    @property
    def smallest_side(self) -> int:
        """See :class:`~weightspace.zoo.image_recipe.ImageRecipe`."""
        return SMALLEST_SIDE

    def specs(self) -> Sequence[GraphSpec]:
        """A spec for each activation that a part has."""
        used = self.activations[: self.parts()]
        return [small_cnn_spec(activation, self.pictures.classes) for activation in used]

    def spec_index(self, part: int) -> int:
        """Parts take the activations in turn."""
        return part % len(self.activations)

    def drawn(self, number: int) -> dict[str, Any]:
        """Draw a network's hyperparameters."""
        random = self.random(number)
        kind = one_of(random, tuple(LEARNING_RATES))
        initialisation = one_of(random, INITIALISATIONS)
        scales = DEVIATIONS if initialisation in _BY_DEVIATION else GAINS
        return {
            "architecture": "small-cnn",
            "activation": self.activations[self.spec_index(number // self.siblings)],
            "initialisation": initialisation,
            "initial_scale": log_uniform(random, *scales),
            "optimiser": kind,
            "learning_rate": log_uniform(random, *LEARNING_RATES[kind]),
            "weight_decay": log_uniform(random, *DECAYS),
            "dropout": float(random.uniform(0, LARGEST_DROPOUT)),
            "training_fraction": one_of(random, FRACTIONS),
        }

    def initial(self, row: Mapping[str, Any]) -> nn.Module:
        """Draw weights of the row's kind and scale; biases are zero."""
        network = SmallCnn.from_row(row)
        for name, parameter in network.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                _initialise(parameter, row["initialisation"], row["initial_scale"])
        return network

    def logits(self, modules: Sequence[nn.Module], rows: Sequence[Mapping[str, Any]]) -> Logits:
        """Run a stack as grouped convolutions, with dropout."""
        return SmallCnnStack(
            rows[0]["activation"],
            dropout=torch.tensor([row["dropout"] for row in rows]),
            seed=derived_seed(rows[0]["subset_seed"], "dropout"),
        )


def _initialise(weight: Tensor, kind: str, scale: float) -> None:
    if kind == "normal":
        nn.init.normal_(weight, std=scale)
    elif kind == "truncated_normal":
        nn.init.trunc_normal_(weight, std=scale, a=-2 * scale, b=2 * scale)
    else:
        if kind == "he_normal":
            nn.init.kaiming_normal_(weight)
        elif kind == "glorot_normal":
            nn.init.xavier_normal_(weight)
        else:
            nn.init.orthogonal_(weight)
        weight.mul_(scale)


@lru_cache(maxsize=16)
def small_cnn_spec(activation: str, classes: int = 10) -> GraphSpec:
    """The spec of small CNNs on grey images.

    >>> small_cnn_spec("relu").parameter_count
    4970
    """
    network = SmallCnn(activation, classes=classes)
    return module_spec(network, torch.zeros(1, 1, 28, 28))
