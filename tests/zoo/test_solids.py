"""Distance fields and random solids."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.zoo.test_mesh_distance import cube
from weightspace.zoo import solids
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
from weightspace.zoo.solids import FAMILIES, FieldSolid, MeshPool, MeshSolid, random_placement

Array = npt.NDArray[Any]

TURN = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))[0]
EXACT = {
    "sphere": Sphere(0.7),
    "box": Box((0.3, 0.5, 0.4)),
    "torus": Torus(0.6, 0.2),
    "capsule": Capsule(0.5, 0.25),
    "cylinder": Cylinder(0.4, 0.5),
    "ellipsoid": Ellipsoid((0.8, 0.3, 0.5)),
    "placed": Placed(Box((0.5, 0.4, 0.3)), 1.3, TURN, np.array([0.1, -0.2, 0.05])),
}


def random_points(seed: int, count: int = 400) -> Array:
    return np.random.default_rng(seed).uniform(-1.2, 1.2, (count, 3))


def slope(field: DistanceField, points: Array, step: float = 1e-5) -> Array:
    """The gradient by differences."""
    offsets = step * np.eye(3)
    parts = [field.distance(points + o) - field.distance(points - o) for o in offsets]
    return np.stack(parts, 1) / (2 * step)


@pytest.mark.parametrize("name", EXACT)
def test_the_closest_point_is_as_far_as_said(name: str) -> None:
    field, points = EXACT[name], random_points(0)
    distance = field.distance(points)
    gradient = slope(field, points)
    smooth = np.abs(np.linalg.norm(gradient, axis=1) - 1) < 1e-6  # not on a medial surface
    assert smooth.mean() > 0.97
    foot = points[smooth] - distance[smooth, None] * gradient[smooth]
    np.testing.assert_allclose(field.distance(foot), 0, atol=1e-5)
    # Nothing is closer: no point of a ball of that radius is on the other side.
    rng = np.random.default_rng(1)
    for _ in range(50):
        away = rng.normal(size=points.shape)
        away *= (np.abs(distance) * 0.999 / np.linalg.norm(away, axis=1))[:, None]
        assert (np.sign(field.distance(points + away)) == np.sign(distance)).all()


def test_an_ellipsoid_with_equal_axes_is_a_ball_and_its_middle_is_inside() -> None:
    points = random_points(2)
    wanted = Sphere(0.6).distance(points)
    np.testing.assert_allclose(Ellipsoid((0.6, 0.6, 0.6)).distance(points), wanted, atol=1e-8)
    field = Ellipsoid((0.9, 0.2, 0.5))
    on_planes = np.array(list(itertools.product([0.0, 0.1], repeat=3)))
    assert (field.distance(on_planes) < 0).all()
    assert field.distance(np.zeros((1, 3)))[0] == pytest.approx(-0.2, abs=1e-6)


@pytest.mark.parametrize("kind", [Union, Intersection])
def test_combined_solids_hold_the_points_they_should(kind: type[Union | Intersection]) -> None:
    first, second = EXACT["placed"], Placed(Sphere(0.5), 1.0, np.eye(3), np.array([0.4, 0, 0]))
    points = random_points(3)
    one, other = first.distance(points) < 0, second.distance(points) < 0
    wanted = one | other if kind is Union else one & other
    assert np.array_equal(kind(first, second).distance(points) < 0, wanted)


def test_a_twist_turns_points_by_their_height() -> None:
    box, turn = Box((0.6, 0.8, 0.1)), 2.0
    points = random_points(4)
    angle = turn * points[:, 1]
    inside = Twist(box, turn).distance(points) < 0
    for point, a, found in zip(points, angle, inside, strict=True):
        matrix = np.array([[np.cos(a), 0, -np.sin(a)], [0, 1, 0], [np.sin(a), 0, np.cos(a)]])
        assert (box.distance((matrix @ point)[None])[0] < 0) == found
    rises = np.linalg.norm(slope(Twist(box, turn), points), axis=1)
    assert np.quantile(rises, 0.9) < 1.05


@settings(max_examples=60, deadline=None)
@given(family=st.sampled_from(sorted(FAMILIES)), seed=st.integers(0, 10_000))
def test_random_solids_lie_within_the_cube(family: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    placed = random_placement(rng, FAMILIES[family](rng))
    ends = rng.uniform(-1, 1, (300, 3))
    ends[np.arange(300), rng.integers(0, 3, 300)] = rng.choice([-1, 1], 300)
    assert (placed.distance(ends) > 0).all()
    inside = (placed.distance(rng.uniform(-1, 1, (4000, 3))) < 0).mean()
    assert 0.01 < inside < 0.45
    np.testing.assert_allclose(placed.rotation @ placed.rotation.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(placed.rotation) == pytest.approx(1)
    np.testing.assert_allclose(placed.forward(placed.inverse(ends)), ends, atol=1e-12)


def test_half_of_the_points_are_near_the_surface() -> None:
    rng = np.random.default_rng(0)
    solid = FieldSolid(random_placement(rng, FAMILIES["torus"](rng)))
    near, spread = solid.near(rng, 500), solid.spread(rng, 500)
    assert len(near.points) == len(spread.points) == 500
    assert np.median(np.abs(near.distance)) < 0.3 * np.median(np.abs(spread.distance))
    np.testing.assert_array_equal(solid.field.distance(near.points), near.distance)


def test_placed_meshes_keep_exact_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solids, "POOL", 2000)
    vertices, faces = cube()
    mesh = Mesh(vertices / np.sqrt(3), faces)
    pool = MeshPool.of(mesh)
    rng = np.random.default_rng(0)
    solid = MeshSolid(pool, random_placement(rng))
    exact = Placed(Box((3**-0.5,) * 3), *(getattr(solid.placed, n) for n in PLACE))
    for some in (
        solid.spread(rng, 300),
        solid.spread(rng, 300, held_out=True),
        solid.near(rng, 300),
    ):
        assert np.abs(some.points).max() <= 1
        np.testing.assert_allclose(exact.distance(some.points), some.distance, atol=1e-12)
    assert not np.intersect1d(pool.spread.points, pool.held_out.points).size


PLACE = ("scale", "rotation", "shift")


def test_the_pool_covers_the_whole_cube_wherever_a_mesh_is() -> None:
    reach = np.sqrt(3) * (1 + solids.SHIFT) / solids.SCALES[0]
    corners = np.array(list(itertools.product([-1.0, 1.0], repeat=3)))
    for seed in range(200):
        placed = random_placement(np.random.default_rng(seed))
        assert np.linalg.norm(placed.inverse(corners), axis=1).max() <= reach
