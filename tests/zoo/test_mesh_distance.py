"""Signed distances to meshes, against all triangles and against winding numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.data import shared_data
from weightspace.errors import DataError, FileError
from weightspace.zoo import mesh_distance
from weightspace.zoo.distance_fields import Box
from weightspace.zoo.mesh_distance import Mesh, load_mesh, tetrahedron

Array = npt.NDArray[Any]


def cube() -> tuple[Array, Array]:
    """The cube from -1 to 1, two triangles a side."""
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)
    sides = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    faces = [(a, b, c) for a, b, c, _ in sides] + [(a, c, d) for a, _, c, d in sides]
    return corners, np.array(faces)


def star(seed: int = 0) -> tuple[Array, Array]:
    """A bumpy ball: not convex, of triangles of very different sizes."""
    steps, turns = 9, 14
    rng = np.random.default_rng(seed)
    polar = np.pi * np.linspace(0, 1, steps)[1:-1] ** 1.4
    around = 2 * np.pi * np.arange(turns) / turns
    ring = np.stack(np.broadcast_arrays(polar[:, None], around[None]), -1).reshape(-1, 2)
    ring = np.concatenate([[[0.0, 0.0]], ring, [[np.pi, 0.0]]])
    radius = rng.uniform(0.4, 1.0, len(ring))[:, None]
    p, a = ring.T
    points = radius * np.stack([np.sin(p) * np.cos(a), np.sin(p) * np.sin(a), np.cos(p)], 1)
    faces, last = [], len(ring) - 1
    for t in range(turns):
        u = (t + 1) % turns
        faces += [(0, 1 + t, 1 + u), (last, last - turns + u, last - turns + t)]
        for s in range(steps - 3):
            a1, b1 = 1 + s * turns + t, 1 + s * turns + u
            faces += [(a1, a1 + turns, b1), (b1, a1 + turns, b1 + turns)]
    return points, np.array(faces)


def winding(points: Array, corners: Array) -> Array:
    """How often the surface goes round each point (van Oosterom and Strackee 1983)."""
    away = corners[None] - points[:, None, None]
    size = np.linalg.norm(away, axis=-1)
    a, b, c = away.transpose(2, 0, 1, 3)
    volume = (a * np.cross(b, c)).sum(-1)
    x, y, z = size.transpose(2, 0, 1)
    other = x * y * z + (a * b).sum(-1) * z + (b * c).sum(-1) * x + (c * a).sum(-1) * y
    return np.asarray((2 * np.arctan2(volume, other)).sum(1) / (4 * np.pi))


def to_segment(points: Array, start: Array, end: Array) -> Array:
    """The distance of every point to every segment."""
    along = end - start
    share = ((points[:, None] - start) * along).sum(-1) / (along**2).sum(-1)
    return np.linalg.norm(points[:, None] - start - share.clip(0, 1)[..., None] * along, axis=-1)


def to_triangles(points: Array, corners: Array) -> Array:
    """The distance to the nearest of all triangles, the plain way: plane or three segments."""
    a, b, c = corners.transpose(1, 0, 2)
    normal = np.cross(b - a, c - a)
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    height = ((points[:, None] - a) * normal).sum(-1)
    foot = points[:, None] - height[..., None] * normal
    within = np.ones(height.shape, dtype=bool)
    for start, end in ((a, b), (b, c), (c, a)):
        within &= (np.cross(end - start, foot - start) * normal).sum(-1) >= 0
    sides = np.min([to_segment(points, s, e) for s, e in ((a, b), (b, c), (c, a))], axis=0)
    return np.asarray(np.where(within, np.abs(height), sides).min(1))


@pytest.mark.parametrize("solid", [tetrahedron(), cube(), star(0), star(1)])
@pytest.mark.parametrize("limit", [50, 1 << 18])
def test_distances_are_those_to_all_triangles_and_signs_those_of_winding(
    solid: tuple[Array, Array], limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mesh_distance, "_PAIRS", limit)
    monkeypatch.setattr(mesh_distance, "_POINTS", 60)
    mesh = Mesh(*solid)
    corners = solid[0][solid[1]]
    rng = np.random.default_rng(0)
    points = rng.normal(size=(170, 3)) * rng.choice([0.25, 1.0, 4.0], (170, 1))
    found = mesh.distance(points)
    np.testing.assert_allclose(np.abs(found), to_triangles(points, corners), atol=1e-12)
    assert np.array_equal(found < 0, winding(points, corners) > 0.5)
    assert 5 < np.count_nonzero(found < 0) < 165


def test_a_cube_is_a_box() -> None:
    rng = np.random.default_rng(0)
    points = rng.uniform(-2, 2, (500, 3))
    wanted = Box((1.0, 1.0, 1.0)).distance(points)
    np.testing.assert_allclose(Mesh(*cube()).distance(points), wanted, atol=1e-12)


def test_points_closest_to_corners_and_sides_have_the_right_sign() -> None:
    # Where plain normals of the nearest face would be wrong: sharp spikes, seen from the tip.
    points, faces = star(2)
    mesh = Mesh(points, faces)
    outwards = points * 1.001
    assert (mesh.distance(outwards) > 0).all()
    assert (mesh.distance(points * 0.98) < 0).all()
    middles = (points[faces[:, 0]] + points[faces[:, 1]]) / 2
    rng = np.random.default_rng(0)
    around = middles + rng.normal(0, 1e-3, middles.shape)
    assert np.array_equal(mesh.distance(around) < 0, winding(around, points[faces]) > 0.5)


def test_points_of_the_surface_lie_on_it_evenly() -> None:
    mesh = Mesh(*cube())
    points = mesh.surface(np.random.default_rng(0), 6000)
    assert np.abs(mesh.distance(points)).max() < 1e-12
    side = np.abs(points).argmax(1) * 2 + (points[np.arange(6000), np.abs(points).argmax(1)] > 0)
    assert np.abs(np.bincount(side) - 1000).max() < 150
    np.testing.assert_allclose(points.mean(0), 0, atol=0.05)


def test_the_shared_mesh_is_a_solid() -> None:
    mesh = load_mesh(shared_data("shapes/spot_mesh.npz"))
    assert np.linalg.norm(mesh.vertices, axis=1).max() == pytest.approx(1.0)
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.uniform(-1, 1, (60, 3)), rng.normal(0, 0.3, (60, 3))])
    found = mesh.distance(points)
    corners = mesh.vertices[mesh.faces]
    np.testing.assert_allclose(np.abs(found), to_triangles(points, corners), atol=1e-9)
    assert np.array_equal(found < 0, winding(points, corners) > 0.5)
    assert (found < 0).sum() > 20


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v, f: (v, f[1:]), "a closed surface"),
        (lambda v, f: (v, np.concatenate([f[:1, ::-1], f[1:]])), "a closed surface"),
        (lambda v, f: (v, f + 1), "vertices 0 to 3"),
        (lambda v, f: (v * np.nan, f), "finite vertices"),
        (lambda v, f: (v, f.astype(float)), "whole numbers"),
        (lambda v, f: (v[:, :2], f), r"found \(4, 2\)"),
        (lambda v, f: (v * [1, 1, 0] * [1, 0, 1], f), "triangles with an area"),
    ],
)
def test_what_is_no_solid_is_refused(change: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Mesh(*change(*tetrahedron()))


def test_files_that_are_no_meshes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"none.npz: expected an .npz file with arrays vertices"):
        load_mesh(tmp_path / "none.npz")
    np.savez(tmp_path / "other.npz", vertices=np.zeros((3, 3)))
    with pytest.raises(FileError, match="faces"):
        load_mesh(tmp_path / "other.npz")
    np.savez(tmp_path / "unsafe.npz", vertices=np.array([{}]), faces=np.zeros((1, 3), int))
    with pytest.raises(FileError, match="allow_pickle"):
        load_mesh(tmp_path / "unsafe.npz")
