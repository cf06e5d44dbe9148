"""Signed distances to solids: negative inside, positive outside, zero on the surface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

Array = npt.NDArray[Any]
Triple = tuple[float, float, float]


class DistanceField(ABC):
    """A solid, as its signed distance."""

    @abstractmethod
    def distance(self, points: Float[Array, "n 3"]) -> Float[Array, "n"]:
        """The signed distance at points."""


@dataclass(frozen=True)
class Sphere(DistanceField):
    """A ball around the origin.

    >>> Sphere(0.5).distance(np.array([[1.0, 0.0, 0.0]]))
    array([0.5])
    """

    radius: float

    def distance(self, points: Float[Array, "n 3"]) -> Float[Array, "n"]:
        """Exact."""
        return _norm(points) - self.radius


@dataclass(frozen=True)
class Box(DistanceField):
    """A box with sides along the axes, given by half its sides."""

    halves: Triple

    def distance(self, points: Float[Array, "n 3"]) -> Float[Array, "n"]:
        """Exact."""
        return _beyond(np.abs(points) - np.asarray(self.halves))


@dataclass(frozen=True)
class Torus(DistanceField):
    """A ring around the second axis."""

    ring: float
    tube: float

    def distance(self, points: Float[Array, "n 3"]) -> Float[Array, "n"]:
        """Exact."""
        outwards = np.hypot(points[:, 0], points[:, 2]) - self.ring
        return np.asarray(np.hypot(outwards, points[:, 1]) - self.tube)


@dataclass(frozen=True)
class Capsule(DistanceField):
    """All points within a radius of a piece of the second axis, given by half its length."""

    half: float
    radius: float

    def distance(self, points: Float[Array, "n 3"]) -> Float[Array, "n"]:
        """Exact."""
        along = points[:, 1] - np.clip(points[:, 1], -self.half, self.half)
        return _norm(np.stack([points[:, 0], along, points[:, 2]], 1)) - self.radius


@dataclass(frozen=True)
class Cylinder(DistanceField):
    """A cylinder around the second axis, given by half its height."""

    half: float
    radius: float

    def distance(self, points: Float[Array, "n 3"]) -> Float[Array, "n"]:
        """Exact."""
        around = np.hypot(points[:, 0], points[:, 2]) - self.radius
        return _beyond(np.stack([around, np.abs(points[:, 1]) - self.half], 1))


@dataclass(frozen=True)
class Ellipsoid(DistanceField):
    """An ellipsoid with half axes along the axes of space.

    The closest point is ``x_i = a_i^2 p_i / (t + a_i^2)`` for the largest root ``t`` of
    ``sum_i (a_i p_i / (t + a_i^2))^2 = 1``, found by bisection (Eberly, Distance from a Point to
    an Ellipse, an Ellipsoid, or a Hyperellipsoid, 2013).
    """

    halves: Triple

    def distance(self, points: Float[Array, "n 3"]) -> Float[Array, "n"]:
        """Exact but for rounding."""
        a = np.asarray(self.halves)
        p = np.maximum(np.abs(points), 1e-9)  # on a plane of symmetry the root may be degenerate
        squares = a**2
        least = int(a.argmin())
        rest = squares - squares[least]
        # s = t + a_least^2 keeps its relative accuracy near 0.
        low, high = a[least] * p[:, least], _norm(a * p)
        for _ in range(80):
            middle = (low + high) / 2
            above = ((a * p / (middle[:, None] + rest)) ** 2).sum(1) > 1
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        closest = squares * p / (((low + high) / 2)[:, None] + rest)
        inside = ((p / a) ** 2).sum(1) < 1
        return np.where(inside, -1, 1) * _norm(p - closest)


@dataclass(frozen=True)
class Union(DistanceField):
    """What is in one solid or the other."""

    first: DistanceField
    second: DistanceField

    def distance(self, points: Float[Array, "n 3"]) -> Float[Array, "n"]:
        """Exact outside; inside a bound, exact where no border of one is within the other."""
        return np.minimum(self.first.distance(points), self.second.distance(points))


@dataclass(frozen=True)
class Intersection(DistanceField):
    """What is in both solids."""

    first: DistanceField
    second: DistanceField

    def distance(self, points: Float[Array, "n 3"]) -> Float[Array, "n"]:
        """Exact inside; outside a lower bound, smaller only where an edge is closest."""
        return np.maximum(self.first.distance(points), self.second.distance(points))


@dataclass(frozen=True)
class Twist(DistanceField):
    """A solid turned about the second axis, the more the higher.

    Args:
        solid: the straight solid.
        turn: the angle in radians a unit of height.
    """

    solid: DistanceField
    turn: float

    def distance(self, points: Float[Array, "n 3"]) -> Float[Array, "n"]:
        """Right in sign; in size an estimate: the straight solid's, over the stretch there."""
        x, y, z = points.T
        angle = self.turn * y
        cosine, sine = np.cos(angle), np.sin(angle)
        straight = np.stack([cosine * x - sine * z, y, sine * x + cosine * z], 1)
        stretch = np.abs(self.turn) * np.hypot(x, z)
        # The largest singular value of a shear by k is (k + sqrt(k^2 + 4)) / 2.
        return np.asarray(2 * self.solid.distance(straight) / (stretch + np.sqrt(stretch**2 + 4)))


@dataclass(frozen=True, eq=False)
class Placed(DistanceField):
    """A solid made larger, turned and moved.

    Args:
        solid: the solid around the origin.
        scale: how much larger.
        rotation: an orthogonal matrix, applied after scaling.
        shift: where the origin goes.
    """

    solid: DistanceField
    scale: float
    rotation: Float[Array, "3 3"]
    shift: Float[Array, "3"]

    def distance(self, points: Float[Array, "n 3"]) -> Float[Array, "n"]:
        """As good as the solid's own."""
        return np.asarray(self.scale * self.solid.distance(self.inverse(points)))

    def inverse(self, points: Float[Array, "n 3"]) -> Float[Array, "n 3"]:
        """Where points were before the solid was placed."""
        return (points - self.shift) @ self.rotation / self.scale

    def forward(self, points: Float[Array, "n 3"]) -> Float[Array, "n 3"]:
        """Where points of the solid go."""
        return self.scale * points @ self.rotation.T + self.shift


def _beyond(sides: Array) -> Array:
    """The distance of a product of intervals, from how far points are beyond each end."""
    return np.asarray(_norm(np.maximum(sides, 0)) + np.minimum(sides.max(1), 0))


def _norm(vectors: Array) -> Array:
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", vectors, vectors)))
