"""Networks of the CNN Wild Park, built from their configurations to be traced."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from weightspace.errors import FileError
from weightspace.graph import Activation, GraphSpec
from weightspace.importers import module_spec

FIELDS = ("channels", "kernel_size", "stride", "padding", "residual", "activation")
_LARGEST = 8192


@dataclass(frozen=True)
class CnnBlueprint:
    """The spec of a network of the wild park, traced from a module that its configuration tells.

    Args:
        channels: of the input and of each convolution's output.
        kernels: the sizes of the kernels.
        strides: the steps of the kernels.
        paddings: the zeros around.
        residual: for each layer the earlier layer that is added to it; -1 for none.
        activations: after each layer.
        classes: outputs of the last, linear layer.
    """

    channels: tuple[int, ...]
    kernels: tuple[int, ...]
    strides: tuple[int, ...]
    paddings: tuple[int, ...]
    residual: tuple[int, ...]
    activations: tuple[str, ...]
    classes: int

    @classmethod
    def of(
        cls, config: Mapping[str, Any], state: Mapping[str, Tensor], subject: object
    ) -> CnnBlueprint:
        """Read a configuration, and check that the weights are of that architecture.

        Raises:
            FileError: they are not, or the configuration is not one of the wild park's.
        """
        try:
            channels, kernels, strides, paddings, residual, activations = (
                tuple(config[name]) for name in FIELDS
            )
            blueprint = cls(
                channels,
                kernels,
                strides,
                paddings,
                residual,
                activations,
                int(config["n_classes"]),
            )
            shapes = blueprint.shapes()
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise FileError(
                f"{subject}, config",
                expected=f"{', '.join(FIELDS)} and n_classes",
                found=f"{type(error).__name__}: {error}",
            ) from error
        found = {name: tuple(tensor.shape) for name, tensor in state.items()}
        if found != shapes:
            differing = sorted(set(found.items()) ^ set(shapes.items()))
            raise FileError(
                subject,
                expected="the weights of the network that its config describes",
                found=f"others, such as {differing[0][0]} of shape {differing[0][1]}",
            )
        return blueprint

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the tensors.

        Raises:
            ValueError: the configuration contradicts itself.
        """
        layers = len(self.kernels)
        lengths = {len(v) for v in (self.strides, self.paddings, self.residual, self.activations)}
        numbers = (*self.channels, *self.kernels, *self.strides, self.classes)
        if lengths != {layers} or len(self.channels) != layers + 1:
            raise ValueError("lists of different lengths")
        if not all(isinstance(n, int) and 0 < n <= _LARGEST for n in numbers):
            raise ValueError("sizes that are not positive, or too large")
        if not all(isinstance(n, int) and -1 <= n < place for place, n in enumerate(self.residual)):
            raise ValueError(f"residual connections {self.residual}")
        for name in self.activations:
            Activation(name)
        result: dict[str, tuple[int, ...]] = {}
        for layer, kernel in enumerate(self.kernels):
            ends = (self.channels[layer + 1], self.channels[layer])
            result[f"layers.{layer}.weight"] = (*ends, kernel, kernel)
            result[f"layers.{layer}.bias"] = ends[:1]
        result["fc.weight"] = (self.classes, self.channels[-1])
        result["fc.bias"] = (self.classes,)
        return result

    @property
    def key(self) -> Hashable:
        """The configuration itself."""
        return self

    def make(self) -> GraphSpec:
        """Trace the module."""
        size = max(16, *self.kernels) * 2
        return module_spec(ParkCnn(self), torch.zeros(1, self.channels[0], size, size))


class ParkCnn(nn.Module):
    """A network of the wild park: convolutions, residual sums, global mean, linear layer.

    The published networks add a residual before the activation, over the channels that both
    layers have; those of the recipe :class:`weightspace.zoo.wild_cnn.WildCnn` are others.

    Args:
        blueprint: its architecture.
    """

    def __init__(self, blueprint: CnnBlueprint) -> None:
        super().__init__()
        self.blueprint = blueprint
        pairs = zip(blueprint.channels, blueprint.channels[1:], strict=False)
        self.layers = nn.ModuleList(
            nn.Conv2d(a, b, kernel, stride=stride, padding=padding)
            for (a, b), kernel, stride, padding in zip(
                pairs, blueprint.kernels, blueprint.strides, blueprint.paddings, strict=True
            )
        )
        self.fc = nn.Linear(blueprint.channels[-1], blueprint.classes)

    def forward(self, x: Tensor) -> Tensor:
        """Classify images ``[batch, channels, height, width]``."""
        kept: list[Tensor] = []
        for layer, source, name in zip(
            self.layers, self.blueprint.residual, self.blueprint.activations, strict=True
        ):
            x = layer(x)
            if source >= 0:
                common = min(x.shape[1], kept[source].shape[1])
                total = x[:, :common] + kept[source][:, :common]
                x = total if common == x.shape[1] else torch.cat([total, x[:, common:]], 1)
            x = Activation(name)(x)
            kept.append(x)
        result: Tensor = self.fc(x.mean((2, 3)))
        return result
