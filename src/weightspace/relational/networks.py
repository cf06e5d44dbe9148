"""The networks of the published experiments, as families over graphs and widths."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd

from weightspace.errors import GraphError
from weightspace.relational.blocks import (
    Graph,
    MobileBlock,
    Residual,
    SqueezeExcite,
    basic,
    bottleneck,
    plain,
    separable,
)
from weightspace.relational.flops import connections, count_flops
from weightspace.relational.graph import RelationalGraph
from weightspace.relational.layers import RelationalLinear
from weightspace.relational.matching import Budget, Widths, match_widths

Branch = Callable[[Graph, int, int, int], nn.Module]


@dataclass(frozen=True)
class NetworkFamily:
    """One architecture for all graphs and widths.

    Args:
        name: of the family.
        widths: of the stages of the dense network.
        input_shape: of one example, without the batch dimension.
        make: builds the network of a graph (None: dense) and widths.
        rounds: of the width search, as published.
        narrowing: how many times a stage's inner width is narrower than the stage.

    >>> family = mlp_family(inputs=12, outputs=3, width=16)
    >>> family.baseline, family.build().count
    (1008, 1008)
    """

    name: str
    widths: Widths
    input_shape: tuple[int, ...]
    make: Callable[[Graph, Widths], nn.Module]
    rounds: int = 9
    narrowing: int = 1
    _uses: dict[tuple[str, ...], Mapping[str, int]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def module(self, graph: Graph = None, widths: Sequence[int] | None = None) -> nn.Module:
        """The network of a graph and widths, newly initialised.

        Raises:
            GraphError: the graph has more nodes than a layer has channels.
        """
        return self.make(graph, self.widths if widths is None else tuple(widths))

    def count(self, graph: Graph = None, widths: Sequence[int] | None = None) -> int:
        """The multiply-adds of one example."""
        with torch.device("meta"):
            module = self.module(graph, widths)
        layers = {n: m for n, m in module.named_modules() if isinstance(m, (nn.Linear, _ConvNd))}
        names = tuple(layers)
        if names not in self._uses:
            # How often a layer is used depends on resolutions, not on widths.
            inputs = torch.empty(1, *self.input_shape, device="meta")
            self._uses[names] = count_flops(module, inputs).uses
        uses = self._uses[names]
        return sum(uses[name] * connections(layer) for name, layer in layers.items()) + sum(
            _excitation_biases(part) for part in module.modules()
        )

    @property
    def baseline(self) -> int:
        """The multiply-adds of the dense network."""
        return self.count()

    def match(self, graph: RelationalGraph, budget: int | None = None) -> tuple[Widths, Budget]:
        """The widths at which the wired network costs what the dense one does.

        Args:
            graph: of the layers.
            budget: the multiply-adds to reach; those of the dense network if not given.

        Raises:
            GraphError: the graph has more nodes than the first layer has channels, or the
                narrowest network that holds the graph costs more.
        """
        asked = self.baseline if budget is None else budget
        return match_widths(
            lambda widths: self.count(graph, widths),
            self.widths,
            asked,
            lowest=graph.n * self.narrowing,
            rounds=self.rounds,
        )

    def build(self, graph: Graph = None, budget: int | None = None) -> BuiltNetwork:
        """The network of a graph, as wide as the budget allows."""
        if graph is None:
            count = self.baseline
            return BuiltNetwork(self.module(), self.widths, Budget(count, count, count))
        widths, got = self.match(graph, budget)
        return BuiltNetwork(self.module(graph, widths), widths, got)


@dataclass(frozen=True)
class BuiltNetwork:
    """A network with what its width search found.

    Args:
        module: the network.
        widths: of its stages.
        budget: what was asked and got.
    """

    module: nn.Module
    widths: Widths
    budget: Budget

    @property
    def count(self) -> int:
        """The multiply-adds of one example."""
        return self.budget.got


def mlp_family(
    *, inputs: int = 3072, outputs: int = 10, width: int = 512, layers: int = 3
) -> NetworkFamily:
    """A multilayer perceptron: a dense stem, wired layers with batch norm, a dense head.

    With the default arguments the 5-layer MLP of the CIFAR-10 experiments. The stem keeps its
    width whatever the graph; the first wired layer maps from it to the matched width.

    Args:
        inputs: the number of input features; examples of any shape are flattened.
        outputs: the number of classes.
        width: of the dense network.
        layers: how many are wired.
    """

    def make(graph: Graph, widths: Widths) -> nn.Module:
        stages: list[nn.Module] = [nn.Flatten(), *_perceptron(None, inputs, width)]
        last = width
        for own in widths:
            stages += _perceptron(graph, last, own)
            last = own
        return nn.Sequential(*stages, nn.Linear(last, outputs))

    return NetworkFamily("mlp", (width,) * layers, (inputs,), make, rounds=15)


def cnn_family(
    *,
    widths: Sequence[int] = (64, 128, 256),
    rounds: int = 2,
    image: int = 224,
    channels: int = 3,
    outputs: int = 1000,
    stem: int = 64,
) -> NetworkFamily:
    """A plain convolutional network whose stages halve the resolution.

    With the default arguments the 8-layer CNN of the ImageNet experiments. For small images
    the stem keeps the resolution.

    Args:
        widths: of the stages.
        rounds: wired 3x3 convolutions in each stage, the first of stride 2.
        image: height and width of the images.
        channels: of the images.
        outputs: the number of classes.
        stem: the width of the first convolution, whatever the graph.
    """
    large = image > 64

    def make(graph: Graph, own: Widths) -> nn.Module:
        stages: list[nn.Module] = [plain_stem(channels, stem, 3, 2 if large else 1)]
        stages += [nn.MaxPool2d(3, 2, 1)] * large
        last = stem
        for width in own:
            for number in range(rounds):
                stages.append(plain(graph, last, width, 2 if number == 0 else 1))
                last = width
        return nn.Sequential(*stages, *_head(last, outputs))

    return NetworkFamily("cnn", tuple(widths), (channels, image, image), make)


def resnet_family(name: str, branch: Branch, widths: Widths, *, dense_skips: bool) -> NetworkFamily:
    """A residual network of 3, 4, 6 and 3 blocks for images of 224 x 224 (He et al. 2016).

    Args:
        name: of the family.
        branch: makes the blocks.
        widths: of the stages.
        dense_skips: whether the projections of the skips stay dense.
    """

    def make(graph: Graph, own: Widths) -> nn.Module:
        stages: list[nn.Module] = [plain_stem(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
        last = 64
        for stage, (width, depth) in enumerate(zip(own, (3, 4, 6, 3), strict=True)):
            for number in range(depth):
                stride = 2 if stage > 0 and number == 0 else 1
                skip = None if dense_skips else graph
                stages.append(
                    Residual(branch(graph, last, width, stride), skip, last, width, stride)
                )
                last = width
        return nn.Sequential(*stages, *_head(last, 1000))

    return NetworkFamily(
        name, widths, (3, 224, 224), make, narrowing=4 if branch is bottleneck else 1
    )


def efficientnet_family() -> NetworkFamily:
    """EfficientNet-B0 for images of 224 x 224 (Tan and Le 2019), wired as published.

    The widths of the stages follow the graph's budget. The expanded widths of a wired network
    are those of the dense network's stages, whatever the budget, as in the published code.
    """
    widths = (16, 24, 40, 80, 112, 192, 320)
    depths, kernels, strides = (1, 2, 2, 3, 3, 4, 1), (3, 3, 5, 3, 5, 5, 3), (1, 2, 2, 2, 1, 2, 1)

    def make(graph: Graph, own: Widths) -> nn.Module:
        stages: list[nn.Module] = [plain_stem(3, 32, 3, 2, nn.SiLU())]
        last = 32
        for stage, (width, depth) in enumerate(zip(own, depths, strict=True)):
            for number in range(depth):
                dense = last if stage == 0 else 6 * last
                wired = last if stage == 0 else 6 * widths[stage]
                stages.append(
                    MobileBlock(
                        graph,
                        last,
                        width,
                        expanded=dense if graph is None else wired,
                        kernel=kernels[stage],
                        stride=strides[stage] if number == 0 else 1,
                    )
                )
                last = width
        head = [nn.Conv2d(last, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.SiLU()]
        return nn.Sequential(*stages, *head, *_head(1280, 1000))

    return NetworkFamily("efficientnet-b0", widths, (3, 224, 224), make)


PUBLISHED_BASELINES: Mapping[str, int] = MappingProxyType(
    {
        "mlp": 2_364_416,
        "cnn": 166_438_912,
        "resnet34": 3_663_761_408,
        "resnet34-sep": 553_614_592,
        "resnet50": 4_089_184_256,
        "efficientnet-b0": 385_824_092,
    }
)
"""The multiply-adds of the dense networks, as the published experiments count them."""


def published_family(name: str) -> NetworkFamily:
    """A family of the published experiments.

    Args:
        name: one of ``PUBLISHED_BASELINES``; the MLP is for images of 3 x 32 x 32, all others
            for 3 x 224 x 224.

    Raises:
        GraphError: there is none of this name.
    """
    families: Mapping[str, Callable[[], NetworkFamily]] = {
        "mlp": mlp_family,
        "cnn": cnn_family,
        "resnet34": lambda: resnet_family(
            "resnet34", basic, (64, 128, 256, 512), dense_skips=False
        ),
        "resnet34-sep": lambda: resnet_family(
            "resnet34-sep", separable, (64, 128, 256, 512), dense_skips=False
        ),
        "resnet50": lambda: resnet_family(
            "resnet50", bottleneck, (256, 512, 1024, 2048), dense_skips=True
        ),
        "efficientnet-b0": efficientnet_family,
    }
    if name not in families:
        raise GraphError("network", expected=f"one of {', '.join(families)}", found=repr(name))
    return families[name]()


def plain_stem(
    channels: int, width: int, kernel: int, stride: int, activation: nn.Module | None = None
) -> nn.Sequential:
    """A dense convolution, norm and activation that read the image."""
    return nn.Sequential(
        nn.Conv2d(channels, width, kernel, stride, kernel // 2, bias=False),
        nn.BatchNorm2d(width),
        activation or nn.ReLU(),
    )


def _perceptron(graph: Graph, width_in: int, width_out: int) -> list[nn.Module]:
    linear = (
        nn.Linear(width_in, width_out, bias=False)
        if graph is None
        else RelationalLinear(width_in, width_out, graph, bias=False)
    )
    return [linear, nn.BatchNorm1d(width_out), nn.ReLU()]


def _head(width: int, outputs: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, outputs)]


def _excitation_biases(part: nn.Module) -> int:
    """The published count has the biases of squeeze-excite layers, and no others."""
    if not isinstance(part, SqueezeExcite):
        return 0
    return sum(p.out_channels for p in part.modules() if isinstance(p, nn.Conv2d))
