"""Modules whose neurons have signs and scales, as the importers derive them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weightspace import from_module
from weightspace.graph import NeuralGraph


class Normed(nn.Module):
    """A batch norm whose channels have other scales before and after it, a residual, heads."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.second, self.deep = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.depthwise = nn.Conv2d(4, 4, 3, padding=1, groups=4)
        self.last = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(self.norm(self.first(x)).relu(), 2)
        x = (x + self.second(x).relu()).relu()
        x = self.depthwise(self.deep(x).relu()).relu()
        return self.last(x.mean((2, 3)))


class Tied(nn.Module):
    """Signs that a residual ties, and a concatenation of neurons with a sign and a scale."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(3, 5), nn.Linear(5, 5), nn.Linear(5, 4)
        self.d, self.e = nn.Linear(5, 6), nn.Linear(10, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.sin(3 * self.a(x))
        x = x + torch.sin(3 * self.b(x))
        return self.e(torch.cat([self.c(x).relu(), self.d(x).tanh()], -1))


class Gated(nn.Module):
    """A gate: one side of the product can be rescaled, the other cannot."""

    def __init__(self) -> None:
        super().__init__()
        self.g, self.u, self.d = nn.Linear(3, 5), nn.Linear(3, 5), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.d(F.silu(self.g(x)) * self.u(x))


class Attending(nn.Module):
    """An attention whose values can be rescaled."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.out, self.mlp = nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        heads = [f(x).view(*x.shape[:2], 2, 2).transpose(1, 2) for f in (self.q, self.k, self.v)]
        y = F.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
        return self.mlp(self.out(y).relu().mean(1))


INPUTS: dict[type[nn.Module], tuple[int, ...]] = {
    Normed: (2, 3, 8, 8),
    Tied: (4, 3),
    Gated: (4, 3),
    Attending: (2, 5, 4),
}


def imported(kind: type[nn.Module], seed: int = 0, networks: int = 2) -> NeuralGraph:
    """Networks of a module, with random values in every tensor."""
    torch.manual_seed(seed)
    graph = from_module(kind().eval(), torch.randn(INPUTS[kind])).to(torch.float64)
    stacked = {
        name: torch.rand(networks, *tensor.shape[1:], dtype=torch.float64) + 0.5
        if "running_var" in name
        else torch.randn(networks, *tensor.shape[1:], dtype=torch.float64)
        if tensor.is_floating_point()
        else tensor.expand(networks, *tensor.shape[1:])
        for name, tensor in graph.stacked_state().items()
    }
    return NeuralGraph.from_stacked(graph.spec, stacked).to(torch.float64)
