"""Which numbers a network's weights were rounded to: half precision, integers, or none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from weightspace.find.matrices import matrix_names
from weightspace.find.network import Network

RoundedTo = Literal["", "float16", "bfloat16", "integers"]

MOST_LEVELS = 256
_FEWEST = 8
_SOME = 4096
_UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8}


@dataclass(frozen=True, slots=True)
class Rounding:
    """How a network's matrices were rounded.

    Args:
        to: half precision, at most 256 evenly spaced values a tensor or a row, or nothing.
        error: the root mean square of the rounding that this takes, relative to the weights.
    """

    to: RoundedTo = ""
    error: float = 0.0

    @property
    def coarseness(self) -> int:
        """A number that is larger for coarser rounding."""
        return ("", "float16", "bfloat16", "integers").index(self.to)


def rounding_of(network: Network) -> Rounding:
    """Find out what a network's matrices were rounded to.

    >>> weights = torch.randn(32, 32, generator=torch.Generator().manual_seed(0))
    >>> step = weights.abs().max() / 127
    >>> rounding_of(Network.of({"weight": (weights / step).round() * step}, None)).to
    'integers'
    >>> rounding_of(Network.of({"weight": weights.half()}, None)).to
    'float16'
    >>> rounding_of(Network.of({"weight": weights}, None)).to
    ''
    """
    matrices = [network.state[name].flatten(1) for name in matrix_names(network)]
    if sum(m.numel() for m in matrices) < 4 * _FEWEST:
        return Rounding()
    steps = list(_steps(matrices))
    if len(steps) == len(matrices) and any(bool(m.any()) for m in matrices):
        return Rounding("integers", _relative(steps, matrices))
    for to, dtype in (("bfloat16", torch.bfloat16), ("float16", torch.float16)):
        if all(torch.equal(m.to(dtype).float(), m) for m in matrices):
            return Rounding(to, _UNIT[to] / math.sqrt(3))  # type: ignore[arg-type]
    return Rounding()


def _steps(matrices: list[Tensor]) -> Iterator[Tensor]:
    """The steps of each matrix, up to the first that is not rounded to any."""
    for matrix in matrices:
        step = _step(matrix)
        if step is None:
            return
        yield step


def _relative(steps: Iterable[Tensor], matrices: list[Tensor]) -> float:
    """Uniform rounding has the variance step^2 / 12; the mean over the values of all matrices."""
    error = values = 0.0
    for step, matrix in zip(steps, matrices, strict=True):
        square = float(matrix.double().square().mean())
        if square:
            error += matrix.numel() * float((step.double().square() / 12).mean()) / square
        values += matrix.numel()
    return math.sqrt(error / values)


def _step(matrix: Tensor) -> Tensor | None:
    """The distances of the values of a tensor, ``[1, 1]``, or of its rows, ``[rows, 1]``."""
    whole = _spacing(matrix.flatten())
    if whole is not None:
        return torch.tensor([[whole]])
    found = []
    for row in matrix:
        spacing = _spacing(row)
        if spacing is None:
            return None
        found.append(spacing)
    # Two or three values always lie on some grid: rows must hold more than that on average.
    return torch.tensor(found)[:, None] if matrix.shape[1] >= _FEWEST else None


def _spacing(values: Tensor) -> float | None:
    """The distance between neighbours if values lie on at most 256 evenly spaced ones."""
    if len(values) > _SOME and len(torch.unique(values[:_SOME])) > MOST_LEVELS:
        return None  # A look at some is enough, and much cheaper than sorting all.
    levels: Tensor = torch.unique(values).double()
    if len(levels) > MOST_LEVELS:
        return None
    if len(levels) == 1:
        return 0.0
    largest, reach = float(levels.abs().max()), float(levels[-1] - levels[0])
    closest = float(levels.diff().min())
    steps = [largest / 127, largest / 128, reach / 255, reach / 254, closest, closest / 2]
    for step in steps:
        # Not from zero, where affine schemes may have no value.
        places = (levels - levels[0]) / step
        even = float((places - places.round()).abs().max()) < 0.05
        if even and float(places[-1]) <= MOST_LEVELS:
            return step
    return None
