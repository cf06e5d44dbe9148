"""Multilayer perceptrons that classify images."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.graph import GraphSpec, chain_spec
from weightspace.zoo.small_cnn import known_activation


class ImageMlp(nn.Module):
    """Linear layers on the values of an image, channels first, with an activation between.

    It takes images ``[batch, channels, height, width]`` with values in [-1, 1].

    Args:
        sizes: the numbers of neurons: the image's values, hidden layers, classes.
        activation: one of :data:`weightspace.zoo.small_cnn.ACTIVATIONS`.

    >>> ImageMlp([64, 32, 10])(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """

    def __init__(self, sizes: Sequence[int], activation: str = "relu") -> None:
        super().__init__()
        self.activation = known_activation(activation)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> ImageMlp:
        """Build the network that a row of a zoo describes, with other weights."""
        return cls(row["sizes"], row["activation"])

    def forward(
        self, images: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch classes"]:
        """Compute the logits."""
        values = torch.flatten(images, 1)
        for layer in self.layers[:-1]:
            values = self.activation(layer(values))
        logits: Tensor = self.layers[-1](values)
        return logits


def image_mlp_spec(sizes: Sequence[int], activation: str = "relu") -> GraphSpec:
    """The spec of image classifiers: a chain on all values of an image.

    >>> image_mlp_spec([64, 32, 10]).parameters[0].name
    'layers.0.weight'
    """
    names = [f"layers.{layer}" for layer in range(len(sizes) - 1)]
    return chain_spec(sizes, activations=activation, layer_names=names)
