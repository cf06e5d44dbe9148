"""Random solids of many families, and the points at which networks learn them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from weightspace.zoo.distance_fields import (
    Box,
    Capsule,
    Cylinder,
    DistanceField,
    Ellipsoid,
    Intersection,
    Placed,
    Sphere,
    Torus,
    Twist,
    Union,
)
from weightspace.zoo.mesh_distance import Mesh

Array = npt.NDArray[Any]
Generator = np.random.Generator

POOL = 1 << 15
"""How many points around a mesh are known of each kind."""

SCALES = (0.75, 0.9)
SHIFT = 0.1
"""How large solids of radius 1 become, and how far they move along each axis, at most."""

_SPREAD = 0.05
_OVERSAMPLED = 4


class Sampled(NamedTuple):
    """Points with their signed distances.

    Args:
        points: coordinates in the cube from -1 to 1.
        distance: one a point.
    """

    points: Float[Array, "n 3"]
    distance: Float[Array, "n"]


class Solid(Protocol):
    """A solid within the cube from -1 to 1."""

    def spread(self, rng: Generator, count: int, *, held_out: bool = False) -> Sampled:
        """Points spread evenly over the cube.

        Args:
            rng: the source of the choice.
            count: how many points.
            held_out: those that judge fitted networks instead of those that fit them.
        """

    def near(self, rng: Generator, count: int) -> Sampled:
        """Points near the surface."""


class FieldSolid:
    """A solid whose distance is cheap to compute anywhere.

    Args:
        field: its distance.
    """

    def __init__(self, field: DistanceField) -> None:
        self.field = field

    def spread(self, rng: Generator, count: int, *, held_out: bool = False) -> Sampled:
        """New points each time."""
        points = rng.uniform(-1, 1, (count, 3))
        return Sampled(points, self.field.distance(points))

    def near(self, rng: Generator, count: int) -> Sampled:
        """Of more points than needed those near the surface, at random (by Gumbel's maxima)."""
        points, distance = self.spread(rng, _OVERSAMPLED * count)
        keys = rng.gumbel(size=len(points)) - np.abs(distance) / _SPREAD
        chosen = np.argpartition(-keys, count)[:count]
        return Sampled(points[chosen], distance[chosen])


@dataclass(frozen=True, eq=False)
class MeshPool:
    """Points around a mesh of radius 1 with their distances, computed once for all placements.

    Args:
        spread: points spread evenly over the ball that any placement may bring into the cube.
        held_out: more of them.
        near: points near the surface.
    """

    spread: Sampled
    held_out: Sampled
    near: Sampled

    @classmethod
    def of(cls, mesh: Mesh) -> MeshPool:
        """Draw the points and compute their distances; takes some seconds."""
        rng = np.random.default_rng(0)
        reach = np.sqrt(3) * (1 + SHIFT) / SCALES[0]
        parts = [_in_ball(rng, POOL, reach) for _ in range(2)]
        parts.append(mesh.surface(rng, POOL) + rng.normal(0, _SPREAD / SCALES[0], (POOL, 3)))
        return cls(*(Sampled(points, mesh.distance(points)) for points in parts))


class MeshSolid:
    """A mesh that is placed somewhere; its points come from the pool.

    Args:
        pool: points around the mesh.
        placed: how it is placed; its own distance is not used.
    """

    def __init__(self, pool: MeshPool, placed: Placed) -> None:
        self.pool = pool
        self.placed = placed

    def spread(self, rng: Generator, count: int, *, held_out: bool = False) -> Sampled:
        """Points of the pool that lie in the cube; some twice where there are too few."""
        return self._chosen(rng, count, self.pool.held_out if held_out else self.pool.spread)

    def near(self, rng: Generator, count: int) -> Sampled:
        """Points of the pool near the surface."""
        return self._chosen(rng, count, self.pool.near)

    def _chosen(self, rng: Generator, count: int, known: Sampled) -> Sampled:
        points = self.placed.forward(known.points)
        inside = np.flatnonzero(np.abs(points).max(1) <= 1)
        chosen = rng.choice(inside, count, replace=len(inside) < count)
        return Sampled(points[chosen], self.placed.scale * known.distance[chosen])


def random_placement(rng: Generator, solid: DistanceField | None = None) -> Placed:
    """Place a solid of radius 1 anywhere in the cube, turned at random.

    Args:
        rng: the source of scale, rotation and shift.
        solid: what is placed; a ball of radius 1 where only the placement matters.
    """
    solid = Sphere(1.0) if solid is None else solid
    return Placed(solid, rng.uniform(*SCALES), _rotation(rng), rng.uniform(-SHIFT, SHIFT, 3))


def _sphere(rng: Generator) -> DistanceField:
    return Sphere(rng.uniform(0.7, 1.0))


def _box(rng: Generator) -> DistanceField:
    halves = rng.uniform(0.4, 1.0, 3)
    return Box(_triple(halves / np.linalg.norm(halves)))


def _torus(rng: Generator) -> DistanceField:
    tube = rng.uniform(0.18, 0.35)
    return Torus(1 - tube, tube)


def _ellipsoid(rng: Generator) -> DistanceField:
    return Ellipsoid((1.0, rng.uniform(0.3, 0.6), rng.uniform(0.3, 0.6)))


def _capsule(rng: Generator) -> DistanceField:
    radius = rng.uniform(0.25, 0.45)
    return Capsule(1 - radius, radius)


def _cylinder(rng: Generator) -> DistanceField:
    angle = rng.uniform(0.4, 1.1)
    return Cylinder(np.cos(angle), np.sin(angle))


def _union(rng: Generator) -> DistanceField:
    away = _rotation(rng)[0] * rng.uniform(0.35, 0.45)
    ball = Placed(Sphere(1.0), 0.5, np.eye(3), away)
    return Union(ball, Placed(_box(rng), 0.55, _rotation(rng), -away))


def _intersection(rng: Generator) -> DistanceField:
    box = Box(_triple(rng.uniform(0.5, 0.57, 3)))
    return Intersection(box, Sphere(rng.uniform(0.65, 0.75)))


def _twist(rng: Generator) -> DistanceField:
    box = Box((rng.uniform(0.4, 0.5), rng.uniform(0.7, 0.85), rng.uniform(0.18, 0.25)))
    return Twist(box, rng.choice([-1, 1]) * rng.uniform(1.5, 3.0))


FAMILIES: dict[str, Callable[[Generator], DistanceField]] = {
    "sphere": _sphere,
    "box": _box,
    "torus": _torus,
    "ellipsoid": _ellipsoid,
    "capsule": _capsule,
    "cylinder": _cylinder,
    "union": _union,
    "intersection": _intersection,
    "twist": _twist,
}
"""Makes a random solid of each family, within a ball of radius 1."""


def _rotation(rng: Generator) -> Array:
    """A rotation, evenly distributed: the QR decomposition of a Gaussian matrix."""
    q, r = np.linalg.qr(rng.normal(size=(3, 3)))
    q = q * np.sign(np.diag(r))
    return q if np.linalg.det(q) > 0 else -q


def _in_ball(rng: Generator, count: int, radius: float) -> Array:
    directions = rng.normal(size=(count, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return directions * radius * rng.uniform(size=(count, 1)) ** (1 / 3)


def _triple(values: Array) -> tuple[float, float, float]:
    first, second, third = map(float, values)
    return first, second, third
