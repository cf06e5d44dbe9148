"""Rules of reading features at computed places, and of networks that draw random numbers."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weightspace import from_module

from .checking import faithful, groups


class Deformable(nn.Module):
    """Attention that reads each head's features at the head's own places (Zhu et al. 2021)."""

    def __init__(self, width: int = 8, heads: int = 4, points: int = 3) -> None:
        super().__init__()
        self.heads, self.points = heads, points
        self.value = nn.Linear(3, width)
        self.offsets = nn.Linear(3, heads * points * 2)
        self.weights = nn.Linear(3, heads * points)
        self.out = nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        batch, height, width, _ = x.shape
        places = height * width
        flat = x.flatten(1, 2)
        value = self.value(flat).view(batch, places, self.heads, -1)
        value = value.flatten(2).transpose(1, 2)
        value = value.reshape(batch * self.heads, -1, height, width)
        offsets = self.offsets(flat).view(batch, places, self.heads, self.points, 2)
        grid = torch.tanh(offsets).transpose(1, 2).flatten(0, 1)
        read = F.grid_sample(value, grid, align_corners=False)
        weights = self.weights(flat).view(batch, places, self.heads, self.points).softmax(-1)
        weights = weights.transpose(1, 2).reshape(batch * self.heads, 1, places, self.points)
        mixed = (read * weights).sum(-1).view(batch, -1, places).transpose(1, 2)
        return self.out(mixed)


def test_heads_move_with_the_places_that_they_read() -> None:
    graph = faithful(Deformable(), torch.randn(2, 5, 4, 3))
    assert groups(graph) == ["2 in 4", "3 in 4", "4"]


class Noisy(nn.Module):
    """Noise of its own for every hidden neuron, drawn in every run."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 8), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        return self.last(torch.tanh(hidden + torch.randn_like(hidden)))


class Thinned(Noisy):
    """Dropout that is never turned off."""

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        kept = torch.bernoulli(hidden, p=0.5)
        return self.last(torch.where(kept == 1, hidden, torch.zeros_like(hidden)))


class Dithered(Noisy):
    """Noise that all hidden neurons share."""

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        return self.last(torch.tanh(hidden + torch.randn(len(x), 1, dtype=x.dtype)))


def test_shared_noise_leaves_neurons_exchangeable() -> None:
    assert groups(faithful(Dithered(), torch.randn(4, 3))) == ["8"]


@pytest.mark.parametrize("net", [Noisy(), Thinned()], ids=lambda net: type(net).__name__)
def test_neurons_with_noise_of_their_own_stay(net: nn.Module) -> None:
    assert groups(from_module(net, torch.randn(4, 3))) == []


def test_a_check_draws_the_same_numbers_in_every_run_and_leaves_the_generator() -> None:
    net, x = Noisy(), torch.randn(4, 3)
    graph = from_module(net, x)
    before = torch.random.get_rng_state()
    assert graph.symmetry.check(net, x).max_relative_change == 0
    assert torch.equal(torch.random.get_rng_state(), before)


class Cached(nn.Module):
    """A layer whose result is appended to a cache that starts empty."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 8), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        nothing = x.new_zeros(len(x), 0, 8)
        cache = torch.cat([nothing, nothing], dim=1)
        cache = cache.reshape(len(x), 0, 2, 4).flatten(2)
        hidden = torch.cat([cache, torch.tanh(self.first(x))], dim=1)
        return self.last(hidden), cache


def test_empty_values_are_passed_over_where_values_are_joined() -> None:
    assert groups(faithful(Cached(), torch.randn(2, 4, 3))) == ["8"]
