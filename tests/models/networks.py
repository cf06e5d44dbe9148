"""Modules whose networks metanetworks are tested on."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.graph.strategies import random_stacked
from weightspace import from_module
from weightspace.graph import NeuralGraph


class Plain(nn.Module):
    """Convolutions, a depthwise one, norms, a residual, flattened positions, no groups."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 4, 3), nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.depthwise = nn.Conv2d(4, 4, 3, padding=1, groups=4)
        self.norm, self.last = nn.BatchNorm2d(4), nn.Linear(4 * 2 * 2, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).relu()
        x = x + self.norm(self.second(x)).relu()
        return self.last(self.depthwise(x).relu().flatten(1))


class Grouped(nn.Module):
    """A grouped convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(2, 4, 3), nn.Linear(4, 3)
        self.grouped = nn.Conv2d(4, 4, 1, groups=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.grouped(self.first(x).relu()).relu().mean((2, 3)))


def networks_of(module: nn.Module, example: Tensor, count: int = 3) -> NeuralGraph:
    """Networks of a module's architecture with random weights."""
    spec = from_module(module.eval(), example).spec
    stacked = random_stacked(spec, count, 0, torch.float64)
    for item in spec.left_out:
        stacked[item.parameter.name] = torch.zeros(count, *item.parameter.shape)
    return NeuralGraph.from_stacked(spec, stacked)


def plain_networks() -> NeuralGraph:
    """Networks of :class:`Plain`."""
    return networks_of(Plain(), torch.randn(1, 2, 4, 4))
