"""Where signals are sampled: the points at which the networks of a stack are evaluated."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor

from weightspace.errors import DataError
from weightspace.zoo.coordinates import pixel_grid
from weightspace.zoo.first_layer import (
    FirstLayer,
    FirstMemory,
    PointwiseLayer,
    SeparableLayer,
)

SEPARABLE_PIXELS = 400
"""From this image size on a separable first layer is the faster one."""


class Domain(ABC):
    """The points at which signals are known. It knows the fastest first layer on them."""

    inputs: int
    """The number of coordinates of a point."""

    count: int
    """The number of points."""

    shared: bool
    """Whether all networks have the same points."""

    @abstractmethod
    def first_layer(self, memory: FirstMemory) -> FirstLayer:
        """Make the first layer of as many networks as there is memory for."""

    @abstractmethod
    def select(self, networks: slice | Int[Tensor, " chosen"]) -> Domain:
        """The points of some of the networks."""


class PixelGrid(Domain):
    """The pixels of images of one size, see :func:`weightspace.zoo.coordinates.pixel_grid`.

    Args:
        height: the images' rows.
        width: the images' columns.
    """

    def __init__(self, height: int, width: int) -> None:
        self.height, self.width = height, width
        self.inputs, self.count, self.shared = 2, height * width, True

    @property
    def separable(self) -> bool:
        """Whether the first layer is computed from rows and columns (measured crossover)."""
        return self.count >= SEPARABLE_PIXELS

    def first_layer(self, memory: FirstMemory) -> FirstLayer:
        """The separable layer for large images, the plain one for small ones."""
        if self.separable:
            return SeparableLayer(memory, height=self.height, width=self.width)
        points = pixel_grid(self.height, self.width, dtype=torch.float64)
        return PointwiseLayer(memory, points[None])

    def select(self, networks: slice | Int[Tensor, " chosen"]) -> Domain:
        """All networks have the same points."""
        return self


class PointSet(Domain):
    """Points anywhere: the same for all networks, or for each network its own.

    Args:
        points: coordinates; with one leading row all networks share them.

    Raises:
        DataError: there are no points, or coordinates that are not finite.

    >>> PointSet(torch.zeros(1, 100, 3)).inputs
    3
    """

    def __init__(self, points: Float[Tensor, "networks points inputs"]) -> None:
        if points.ndim != 3 or not points.is_floating_point() or points.numel() == 0:
            raise DataError(
                "points",
                expected="floating-point coordinates [networks, points, inputs], at least one",
                found=f"{str(points.dtype).removeprefix('torch.')} of shape {tuple(points.shape)}",
            )
        if not bool(points.isfinite().all()):
            raise DataError("points", expected="finite coordinates", found="NaN or infinity")
        self.points = points
        self.count, self.inputs = points.shape[1:]
        self.shared = len(points) == 1

    def first_layer(self, memory: FirstMemory) -> FirstLayer:
        """The plain layer."""
        return PointwiseLayer(memory, self.points)

    def select(self, networks: slice | Int[Tensor, " chosen"]) -> Domain:
        """The points of some of the networks."""
        return self if self.shared else PointSet(self.points[networks])
