"""The residual and mobile blocks of the published networks, wired by a graph or dense."""

from __future__ import annotations

from torch import Tensor, nn

from weightspace.relational.graph import RelationalGraph
from weightspace.relational.layers import RelationalConv2d

Graph = RelationalGraph | None


def convolution(
    graph: Graph, width_in: int, width_out: int, kernel: int, *, stride: int = 1
) -> nn.Module:
    """A convolution without bias, wired if there is a graph."""
    padding = kernel // 2
    if graph is None:
        return nn.Conv2d(width_in, width_out, kernel, stride, padding, bias=False)
    return RelationalConv2d(
        width_in, width_out, graph, kernel, stride=stride, padding=padding, bias=False
    )


def depthwise(width: int, kernel: int, *, stride: int = 1) -> nn.Conv2d:
    """A convolution of each channel by itself: no channel hears another, so no wiring."""
    return nn.Conv2d(width, width, kernel, stride, kernel // 2, groups=width, bias=False)


def plain(graph: Graph, width_in: int, width_out: int, stride: int) -> nn.Sequential:
    """A 3x3 convolution, norm and rectifier: a round of the CNN."""
    return nn.Sequential(
        convolution(graph, width_in, width_out, 3, stride=stride),
        nn.BatchNorm2d(width_out),
        nn.ReLU(),
    )


def basic(graph: Graph, width_in: int, width_out: int, stride: int) -> nn.Sequential:
    """Two 3x3 convolutions: the branch of a ResNet-34 block (He et al. 2016)."""
    return nn.Sequential(
        convolution(graph, width_in, width_out, 3, stride=stride),
        nn.BatchNorm2d(width_out),
        nn.ReLU(),
        convolution(graph, width_out, width_out, 3),
        nn.BatchNorm2d(width_out),
    )


def separable(graph: Graph, width_in: int, width_out: int, stride: int) -> nn.Sequential:
    """The same of separable convolutions; only their 1x1 parts are wired."""
    return nn.Sequential(
        depthwise(width_in, 3, stride=stride),
        convolution(graph, width_in, width_out, 1),
        nn.BatchNorm2d(width_out),
        nn.ReLU(),
        depthwise(width_out, 3),
        convolution(graph, width_out, width_out, 1),
        nn.BatchNorm2d(width_out),
    )


def bottleneck(graph: Graph, width_in: int, width_out: int, stride: int) -> nn.Sequential:
    """1x1, 3x3, 1x1: the branch of a ResNet-50 block; the inner width is a quarter."""
    inner = round(width_out / 4)
    return nn.Sequential(
        convolution(graph, width_in, inner, 1),
        nn.BatchNorm2d(inner),
        nn.ReLU(),
        convolution(graph, inner, inner, 3, stride=stride),
        nn.BatchNorm2d(inner),
        nn.ReLU(),
        convolution(graph, inner, width_out, 1),
        nn.BatchNorm2d(width_out),
    )


class Residual(nn.Module):
    """``relu(skip(x) + branch(x))`` with a projection where width or resolution change.

    Args:
        branch: the block's other way.
        graph: of the projection, None for a dense one.
        width_in: channels that come in.
        width_out: channels that go out.
        stride: of the block.
    """

    def __init__(
        self, branch: nn.Module, graph: Graph, width_in: int, width_out: int, stride: int
    ) -> None:
        super().__init__()
        self.branch = branch
        self.skip = (
            nn.Identity()
            if width_in == width_out and stride == 1
            else nn.Sequential(
                _projection(graph, width_in, width_out, stride), nn.BatchNorm2d(width_out)
            )
        )
        self.activation = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Add the two ways."""
        y: Tensor = self.activation(self.skip(x) + self.branch(x))
        return y


class SqueezeExcite(nn.Module):
    """Channels weighed by a small dense network of their means (Hu et al. 2018).

    Args:
        width: the number of channels.
        inner: the number of hidden channels.
    """

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(width, inner, 1),
            nn.SiLU(),
            nn.Conv2d(inner, width, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Weigh the channels."""
        y: Tensor = x * self.weigh(x)
        return y


class MobileBlock(nn.Module):
    """Expand, depthwise, squeeze-excite, project (Tan and Le 2019).

    Args:
        graph: of the two 1x1 convolutions, None for dense ones.
        width_in: channels that come in.
        width_out: channels that go out.
        expanded: channels between; no expansion if equal to ``width_in``.
        kernel: of the depthwise convolution.
        stride: of it.
    """

    def __init__(
        self,
        graph: Graph,
        width_in: int,
        width_out: int,
        *,
        expanded: int,
        kernel: int,
        stride: int,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        if expanded != width_in:
            layers += [
                convolution(graph, width_in, expanded, 1), nn.BatchNorm2d(expanded), nn.SiLU()
            ]  # fmt: skip
        layers += [
            depthwise(expanded, kernel, stride=stride),
            nn.BatchNorm2d(expanded),
            nn.SiLU(),
            SqueezeExcite(expanded, width_in // 4),
            convolution(graph, expanded, width_out, 1),
            nn.BatchNorm2d(width_out),
        ]
        self.branch = nn.Sequential(*layers)
        self.skips = stride == 1 and width_in == width_out

    def forward(self, x: Tensor) -> Tensor:
        """Add the input where shapes allow."""
        y: Tensor = self.branch(x)
        return x + y if self.skips else y


def _projection(graph: Graph, width_in: int, width_out: int, stride: int) -> nn.Module:
    if graph is None:
        return nn.Conv2d(width_in, width_out, 1, stride, bias=False)
    return RelationalConv2d(width_in, width_out, graph, 1, stride=stride, bias=False)
