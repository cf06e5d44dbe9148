"""What a learned optimiser knows of every parameter of the network that it trains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

Stacked = Mapping[str, Tensor]
"""A tensor ``[networks, *shape]`` for each parameter's name."""

DECAYS = (0.5, 0.9, 0.99)
"""Of the momenta."""
SECOND_DECAY = 0.999
TIMESCALES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
EPSILON = 1e-8


@dataclass(frozen=True, eq=False)
class Memory:
    """Running means of the gradients and of their squares.

    Args:
        momenta: one for each of :data:`DECAYS`.
        squares: the mean of the squared gradients.
        step: how many gradients were seen.
    """

    momenta: tuple[dict[str, Tensor], ...]
    squares: dict[str, Tensor]
    step: int

    @classmethod
    def of(cls, parameters: Stacked) -> Memory:
        """The memory before the first gradient."""
        zeros = [{n: torch.zeros_like(p) for n, p in parameters.items()} for _ in range(4)]
        return cls((zeros[0], zeros[1], zeros[2]), zeros[3], 0)

    def after(self, gradients: Stacked) -> Memory:
        """The memory after one more gradient."""
        momenta = tuple(
            {name: decay * own[name] + (1 - decay) * g for name, g in gradients.items()}
            for decay, own in zip(DECAYS, self.momenta, strict=True)
        )
        squares = {
            name: SECOND_DECAY * self.squares[name] + (1 - SECOND_DECAY) * g.square()
            for name, g in gradients.items()
        }
        return Memory(momenta, squares, self.step + 1)

    def momentum(self, number: int) -> dict[str, Tensor]:
        """A running mean, corrected for its start at zero (Kingma and Ba 2015)."""
        correction = 1 - DECAYS[number] ** self.step
        return {name: own / correction for name, own in self.momenta[number].items()}

    def deviation(self) -> dict[str, Tensor]:
        """The root of the mean squared gradient, corrected for its start."""
        correction = 1 - SECOND_DECAY**self.step
        return {name: (own / correction).sqrt() for name, own in self.squares.items()}

    def direction(self) -> dict[str, Tensor]:
        """Adam's direction: the slower momentum by the deviation."""
        deviation, mean = self.deviation(), self.momentum(1)
        return {name: mean[name] / (deviation[name] + EPSILON) for name in mean}


def channels(parameters: Stacked, gradients: Stacked, memory: Memory) -> list[dict[str, Tensor]]:
    """The features of every parameter, one channel after another.

    The features of Metz et al. 2020 without those of factored moments: value, gradient and
    momenta, each divided by its root mean square over the network's tensor; gradient and momenta
    divided by the root of the second moment; the inverse of that root. Each is then compressed by
    ``asinh``, as single values can be many times their tensor's size. All are functions of one
    parameter and of sums over its tensor, so a permutation of neurons permutes them.

    Args:
        parameters: of the networks.
        gradients: of the loss of each.
        memory: with these gradients in it.
    """
    momenta = [memory.momentum(number) for number in range(len(DECAYS))]
    deviation = memory.deviation()
    scaled = [_by_size(each) for each in (parameters, gradients, *momenta)]
    whitened = [
        {name: each[name] / (deviation[name] + EPSILON) for name in each}
        for each in (gradients, *momenta)
    ]
    inverse = _by_size({name: 1 / (d + EPSILON) for name, d in deviation.items()})
    every = [*scaled, *whitened, inverse]
    return [{name: torch.asinh(values) for name, values in each.items()} for each in every]


CHANNELS = 2 * (1 + len(DECAYS)) + 2
"""How many features :func:`channels` gives."""


def step_features(step: int) -> Tensor:
    """What is known of the time: ``tanh(step / timescale - 1)`` for several timescales."""
    return torch.tanh(step / torch.tensor(TIMESCALES) - 1)


def _by_size(stacked: Stacked) -> dict[str, Tensor]:
    """Divide each network's tensor by its root mean square."""
    result = {}
    for name, tensor in stacked.items():
        dims = tuple(range(1, tensor.ndim))
        size = tensor.square().mean(dims, keepdim=True) if dims else tensor.square()
        result[name] = tensor / (size + EPSILON**2).sqrt().clamp_min(EPSILON)
    return result
