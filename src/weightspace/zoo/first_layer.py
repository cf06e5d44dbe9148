"""The first layer of many SIRENs at given points, and its gradient."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.zoo.coordinates import pixel_axis


class FirstMemory(NamedTuple):
    """Memory that a first layer fills, and some to compute with.

    Args:
        values: the hidden values ``[networks, size + 1, points]`` to fill; the last row with 1.
        delta: where the gradient ``[networks, size, points]`` of the others will stand.
        slopes: as large as ``delta``, for phases; nobody else's between the forward and the
            backward computation.
    """

    values: Tensor
    delta: Tensor
    slopes: Tensor


class FirstLayer(Protocol):
    """Fills hidden values from the first layer's parameters, and gradients from gradients."""

    def forward(self, weight: Float[Tensor, "networks size inputs+1"], w0: float) -> None:
        """Fill the hidden values from ``[W, b]``."""

    def backward(self, factor: float, slot: Float[Tensor, "networks inputs+1 size"]) -> None:
        """Fill the parameters' gradient from that of the hidden values, times a factor."""


class PointwiseLayer:
    """``sin(w0 (W x + b))`` at every point. The better way for points on no grid or a small one.

    Args:
        memory: what it fills; its values' last row holds ones.
        points: coordinates, for each network or with one leading row for all.
    """

    def __init__(self, memory: FirstMemory, points: Float[Tensor, "rows points inputs"]) -> None:
        networks, size, _ = memory.delta.shape
        columns = points.transpose(1, 2)
        columns = torch.cat([columns, torch.ones_like(columns[:, :1])], dim=1)
        self._points = columns.to(memory.delta).expand(networks, -1, -1)
        self._sines = memory.values[:, :size]
        self._delta = memory.delta
        self._slopes = memory.slopes
        self._slopes_t = self._slopes.transpose(1, 2)

    def forward(self, weight: Float[Tensor, "networks size inputs+1"], w0: float) -> None:
        """Fill the hidden values from ``[W, b]``."""
        phases = self._slopes
        torch.baddbmm(phases, weight, self._points, beta=0, alpha=w0, out=phases)
        torch.sin(phases, out=self._sines)

    def backward(self, factor: float, slot: Float[Tensor, "networks inputs+1 size"]) -> None:
        """Fill the parameters' gradient from that of the hidden values, times a factor."""
        self._slopes.cos_().mul_(self._delta)
        torch.baddbmm(slot, self._points, self._slopes_t, beta=0, alpha=factor, out=slot)


class SeparableLayer:
    """``sin(w0 (W x + b))`` from sines of rows and of columns. The better way for large images.

    With ``r`` the part of the phase that depends on the row (the bias with it) and ``c`` the
    part of the column, ``sin(r + c) = sin r cos c + cos r sin c``: a product of matrices of
    sines for ``height + width`` instead of ``height * width`` phases. All five rows of sines
    that this and its derivative need (sin r, cos r, -sin r; cos c, sin c) are sines of shifted
    phases, which a product with ``[W_x, W_y, b, 1]`` gives.

    Args:
        memory: what it fills.
        height: the images' rows.
        width: the images' columns.
    """

    def __init__(self, memory: FirstMemory, *, height: int, width: int) -> None:
        values, delta, _ = memory
        networks, size, _ = delta.shape
        grid, powers, sums = _constants(height, width)
        self._grid = grid.to(delta).expand(networks, -1, -1)
        self._powers = powers.to(delta)
        self._sums = sums.to(delta).expand(networks, -1, -1)
        self._weights = delta.new_zeros(networks, size + 1, 4)
        self._weights[:, :, 3] = 1.0
        # One neuron more, whose value is constant: sin(pi/2) cos(0) + cos(pi/2) sin(0) = 1.
        self._weights[:, size, 2] = math.pi / 2
        self._own_weights = self._weights[:, :size, :3]
        self._sines = delta.new_empty(networks, size + 1, grid.shape[1])
        every = self._sines.view(networks * (size + 1), -1)
        self._rows = every[:, : 2 * height].view(-1, 2, height).transpose(1, 2)
        self._columns = every[:, 3 * height :].view(-1, 2, width)
        self._values = values.view(-1, height, width)
        self._row_slopes = self._sines[:, :size, None, height : 3 * height]
        self._column_sines = self._sines[:, :size, None, 3 * height :]
        self._left = delta.new_empty(networks, size, 2, 2 * height)
        self._left_rows = self._left.view(-1, 4, height)
        self._delta = delta.view(-1, height, width)
        self._right = delta.new_empty(networks, size, 2, 2 * width)
        self._right_rows = self._right.view(-1, 4, width)
        self._right_columns = self._right.view(networks, size, 4 * width).transpose(1, 2)

    def forward(self, weight: Float[Tensor, "networks size inputs+1"], w0: float) -> None:
        """Fill the hidden values from ``[W, b]``."""
        torch.mul(weight, w0, out=self._own_weights)
        torch.bmm(self._weights, self._grid, out=self._sines)
        self._sines.sin_()
        torch.bmm(self._rows, self._columns, out=self._values)

    def backward(self, factor: float, slot: Float[Tensor, "networks inputs+1 size"]) -> None:
        """Fill the parameters' gradient from that of the hidden values, times a factor.

        ``sum_ij y_i^k d_ij cos(r_i + c_j) = sum_j cos c_j (sum_i y_i^k cos r_i d_ij)
        - sin c_j (sum_i y_i^k sin r_i d_ij)``, and sums over ``j`` with 1 or ``x_j``.
        """
        torch.mul(self._row_slopes, self._powers, out=self._left)
        torch.bmm(self._left_rows, self._delta, out=self._right_rows)
        self._right.mul_(self._column_sines)
        torch.baddbmm(slot, self._sums, self._right_columns, beta=0, alpha=factor, out=slot)


def _constants(height: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """The constant matrices of a separable layer, in double precision.

    Returns:
        What ``[W_x, W_y, b, 1]`` is multiplied with to get the shifted phases, the powers 1 and
        ``y`` of the sums over rows (each for both slopes), and the weights of the sums over
        columns that give the gradients of ``W_x``, ``W_y`` and ``b``.
    """
    y, x = pixel_axis(height, dtype=torch.float64), pixel_axis(width, dtype=torch.float64)
    grid = torch.zeros(4, 3 * height + 2 * width, dtype=torch.float64)
    grid[0, 3 * height :] = x.repeat(2)
    grid[1, : 3 * height] = y.repeat(3)
    grid[2, : 3 * height] = 1.0
    grid[3, height : 2 * height] = math.pi / 2
    grid[3, 2 * height : 3 * height] = math.pi
    grid[3, 3 * height : 3 * height + width] = math.pi / 2
    powers = torch.stack([torch.ones_like(y), y])[:, None].expand(2, 2, height)
    sums = torch.zeros(2, 2, width, 3, dtype=torch.float64)
    sums[0, :, :, 0], sums[1, :, :, 1], sums[0, :, :, 2] = x, 1.0, 1.0
    return grid, powers.reshape(2, 2 * height), sums.reshape(4 * width, 3).t()
