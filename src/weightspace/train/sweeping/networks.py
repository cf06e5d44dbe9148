"""The networks of a sweep: an MLP, a CNN, or any module, as wide as their wiring allows."""

from __future__ import annotations

import copy
import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from weightspace.errors import ModelError, require_between
from weightspace.relational import RelationalGraph
from weightspace.relational.flops import count_flops
from weightspace.relational.layers import WiredLayer
from weightspace.relational.matching import Budget, Widths, match_widths
from weightspace.relational.networks import NetworkFamily, cnn_family, mlp_family
from weightspace.relational.resizing import resized
from weightspace.relational.rewire import rewire
from weightspace.relational.wiring import Wiring
from weightspace.train.sweeping.grouped import grouped_network, match_groups
from weightspace.train.sweeping.wired import Match, Wired

Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Built:
    """A network of a sweep.

    Args:
        make: gives it, newly initialised.
        width: its widest layer that a graph wires.
        asked: multiply-adds or parameters of the dense network, whichever were to be matched.
        got: those of this one.
        flops: multiply-adds of one image.
        parameters: weights that are there, biases and norms.
    """

    make: Callable[[], nn.Module]
    width: int
    asked: int
    got: int
    flops: int
    parameters: int


class SweepNetwork(ABC):
    """A network for all wirings; it can be sent to another process."""

    name: str

    @abstractmethod
    def build(self, wired: Wired, shape: Shape, classes: int) -> Built:
        """The network of a wiring.

        Args:
            wired: what wires it.
            shape: channels, height and width of its images.
            classes: to tell apart.

        Raises:
            GraphError: the graph has more nodes than a layer has channels, or the dense
                network's cost cannot be met.
        """

    @abstractmethod
    def check(self, graph: RelationalGraph, shape: Shape, classes: int) -> None:
        """Check that a graph fits, quickly.

        Raises:
            GraphError: it has more nodes than the narrowest layer has channels.
        """

    @abstractmethod
    def can(self, wired: Wired) -> bool:
        """Whether there is such a control of this network."""

    @abstractmethod
    def as_dict(self) -> dict[str, Any]:
        """What tells this network from others."""


@dataclass(frozen=True)
class _FamilyNetwork(SweepNetwork):
    """A network that is a family over graphs and widths."""

    width: int

    def __post_init__(self) -> None:
        require_between("width", self.width, 1, 100_000)

    @abstractmethod
    def family(self, shape: Shape, classes: int) -> NetworkFamily:
        """The family for images of a shape."""

    def build(self, wired: Wired, shape: Shape, classes: int) -> Built:
        """The network of a wiring, see :class:`SweepNetwork`."""
        family = self.family(shape, classes)
        if wired.dense:
            widths, budget = family.widths, Budget(family.baseline, family.baseline, 0)
        elif wired.groups:
            widths, budget = match_groups(family, wired.groups)
        else:
            widths, budget = _matched(self, shape, classes, wired.graph, wired.match)

        def make() -> nn.Module:
            if wired.groups:
                return grouped_network(family, wired.groups, widths)
            return family.module(None if wired.dense else wired.graph, widths)

        with torch.device("meta"):
            bare = make()
            images = torch.empty(1, *family.input_shape)
        return Built(
            make,
            max(widths),
            budget.asked,
            budget.got,
            count_flops(bare, images).total,
            parameters(bare),
        )

    def check(self, graph: RelationalGraph, shape: Shape, classes: int) -> None:
        """Check that a graph fits the dense network's layers."""
        with torch.device("meta"):
            self.family(shape, classes).module(graph)

    def can(self, wired: Wired) -> bool:
        """Groups must divide the stem, which keeps its width."""
        return not wired.groups or self.width % wired.groups == 0

    def as_dict(self) -> dict[str, Any]:
        """What tells this network from others."""
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class MlpNetwork(_FamilyNetwork):
    """A multilayer perceptron: a dense stem, wired layers with batch norm, a dense head.

    Args:
        width: of the dense network's hidden layers.
        layers: how many are wired; the published one has 3, five layers in all.
    """

    width: int = 64
    layers: int = 3
    name: str = "mlp"

    def family(self, shape: Shape, classes: int) -> NetworkFamily:
        """The family for images of a shape."""
        inputs = shape[0] * shape[1] * shape[2]
        return mlp_family(inputs=inputs, outputs=classes, width=self.width, layers=self.layers)


@dataclass(frozen=True)
class CnnNetwork(_FamilyNetwork):
    """A plain convolutional network; every stage halves the resolution and doubles the width.

    Args:
        width: of the dense network's stem and first stage.
        stages: how many.
        rounds: wired 3x3 convolutions in each.
    """

    width: int = 64
    stages: int = 2
    rounds: int = 1
    name: str = "cnn"

    def family(self, shape: Shape, classes: int) -> NetworkFamily:
        """The family for images of a shape."""
        channels, height, width = shape
        family = cnn_family(
            widths=[self.width << stage for stage in range(self.stages)],
            rounds=self.rounds,
            image=min(height, 64),  # of larger images the stem would lower the resolution
            channels=channels,
            outputs=classes,
            stem=self.width,
        )
        return dataclasses.replace(family, input_shape=(channels, height, width))


@dataclass(frozen=True, eq=False)
class ModuleNetwork(SweepNetwork):
    """Any module that takes a batch of images, rewired by each graph.

    Args:
        name: of the network.
        module: the network; it is left as it is, every run starts from new numbers.
    """

    name: str
    module: nn.Module

    def build(self, wired: Wired, shape: Shape, classes: int) -> Built:
        """The network of a wiring, see :class:`SweepNetwork`."""
        images = torch.zeros(1, *shape)
        asked = count_flops(self.module, images).total
        if wired.dense:
            made, width = self.module, 0
        else:
            rewired = rewire(
                self.module, wired.graph, inputs=images, match_flops=wired.match == "flops"
            )
            made = rewired.module
            width = max((new for _, new in rewired.report.widths.values()), default=0)
        _require_classes(self.name, made, images, classes)
        got = count_flops(made, images).total
        return Built(lambda: _fresh(made), width, asked, got, got, parameters(made))

    def check(self, graph: RelationalGraph, shape: Shape, classes: int) -> None:
        """Check that a graph fits the module's layers, and the module the images."""
        images = torch.zeros(1, *shape)
        count_flops(self.module, images)
        _require_classes(self.name, self.module, images, classes)
        rewire(self.module, graph, inputs=images, match_flops=False)

    def can(self, wired: Wired) -> bool:
        """Modules are matched by multiply-adds or not at all, and never divided."""
        return not wired.groups and wired.match != "parameters"

    def as_dict(self) -> dict[str, Any]:
        """What tells this network from others."""
        return {
            "name": self.name,
            "module": type(self.module).__qualname__,
            "parameters": sum(p.numel() for p in self.module.parameters()),
        }


def parameters(module: nn.Module) -> int:
    """The number of parameters; of wired weights only those that there are.

    >>> from weightspace.relational import complete
    >>> from weightspace.relational.layers import RelationalLinear
    >>> parameters(RelationalLinear(4, 4, complete(4)))
    20
    """
    total = sum(parameter.numel() for parameter in module.parameters())
    for part in module.modules():
        if isinstance(part, WiredLayer):
            wiring: Wiring = part.wiring_
            kernel = part.weight[0, 0].numel()
            total += wiring.connections * kernel - part.weight.numel()
    return total


@lru_cache(maxsize=4096)
def _matched(
    network: _FamilyNetwork, shape: Shape, classes: int, graph: RelationalGraph, match: Match
) -> tuple[Widths, Budget]:
    """The widths of a graph; found once for all seeds."""
    family = network.family(shape, classes)
    if match == "flops":
        return family.match(graph)
    if match == "width":
        got = family.count(graph)
        return family.widths, Budget(family.baseline, got, got)

    def count(widths: Widths | None = None, own: RelationalGraph | None = graph) -> int:
        with torch.device("meta"):
            return parameters(family.module(own, widths))

    return match_widths(count, family.widths, count(own=None), lowest=graph.n, rounds=family.rounds)


def _fresh(module: nn.Module) -> nn.Module:
    """A copy with new numbers."""
    made = resized(copy.deepcopy(module), {})
    return made.requires_grad_(requires_grad=True)


def _require_classes(name: str, module: nn.Module, images: Tensor, classes: int) -> None:
    was = module.training
    with torch.no_grad():
        outputs = module.eval()(images)
    module.train(was)
    if not isinstance(outputs, Tensor) or outputs.shape != (1, classes):
        found = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise ModelError(
            f"network {name}", expected=f"outputs of shape (1, {classes})", found=str(found)
        )
