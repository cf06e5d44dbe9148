"""The signed distance to a closed mesh of triangles, exact and vectorised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Float, Int

from weightspace.errors import DataError, FileError, reason_of

Array = npt.NDArray[Any]

NEIGHBOURS = 8
"""How many triangles are tried for every point at first, for a good bound."""

_POINTS = 1 << 13
_PAIRS = 1 << 18
"""How many points, and pairs of points and triangles, are computed at a time."""


class Mesh:
    """A closed, oriented mesh of triangles.

    The sign comes from pseudonormals (Baerentzen and Aanaes, Signed Distance Computation Using
    the Angle Weighted Pseudonormal, 2005): with the closest point in a face, on an edge or at a
    vertex, the sign of ``(p - closest) . n``, where ``n`` is the face's normal, the sum of the
    two faces' normals, or the sum of all faces' normals weighted with their angles.

    Args:
        vertices: their coordinates.
        faces: three vertices each, counter-clockwise seen from outside.
        subject: what errors call it.

    Raises:
        DataError: the mesh is empty, not closed or not oriented, or a triangle has no area.

    >>> Mesh(*tetrahedron()).distance(np.array([[0.0, 0.0, 0.0], [0.0, 0.0, -2.0]])).round(3)
    array([-0.333,  1.667])
    """

    def __init__(
        self,
        vertices: Float[Array, "v 3"],
        faces: Int[Array, "f 3"],
        *,
        subject: object = "mesh",
    ) -> None:
        from scipy.spatial import cKDTree  # noqa: PLC0415 (only meshes need it)

        _check(subject, vertices, faces)
        self.vertices = np.asarray(vertices, dtype=np.float64)
        self.faces = np.asarray(faces, dtype=np.int64)
        self._corners = self.vertices[self.faces]
        self._normals = _feature_normals(subject, self.vertices, self.faces)
        centres = self._corners.mean(1)
        self._tree = cKDTree(centres)
        self._centres = centres
        self._reach = np.linalg.norm(self._corners - centres[:, None], axis=-1).max(1)

    def distance(self, points: Float[Array, "n 3"]) -> Float[Array, "n"]:
        """The distance from the mesh, negative inside.

        A triangle can only be the closest if its centre is not farther than the best known
        distance and the greatest reach of a triangle; all such are tried.

        Args:
            points: anywhere.
        """
        points = np.asarray(points, dtype=np.float64)
        starts = range(0, len(points), _POINTS)
        return np.concatenate([self._distance(points[at : at + _POINTS]) for at in starts])

    def surface(self, rng: np.random.Generator, count: int) -> Float[Array, "n 3"]:
        """Points spread evenly over the surface.

        Args:
            rng: the source of the choice.
            count: how many points.
        """
        a, b, c = self._corners.transpose(1, 0, 2)
        areas = np.linalg.norm(np.cross(b - a, c - a), axis=1)
        chosen = rng.choice(len(areas), count, p=areas / areas.sum())
        v, w = rng.uniform(size=(2, count, 1))
        folded = v + w > 1
        v, w = np.where(folded, 1 - v, v), np.where(folded, 1 - w, w)
        return np.asarray(a[chosen] + v * (b - a)[chosen] + w * (c - a)[chosen])

    def _distance(self, points: Array) -> Array:
        count = min(NEIGHBOURS, len(self.faces))
        spacing, near = self._tree.query(points, k=count)
        spacing, near = (np.asarray(some).reshape(len(points), count) for some in (spacing, near))
        signed = self._closest(points, near.ravel(), np.full(len(points), count))
        unsure = spacing[:, -1] < np.abs(signed) + self._reach.max()
        if count < len(self.faces) and unsure.any():
            rest, bounds = points[unsure], np.abs(signed[unsure]) + 1e-12
            signed[unsure] = self._closest(rest, *self._candidates(rest, bounds))
        return signed

    def _candidates(self, points: Array, bounds: Array) -> tuple[Array, Array]:
        """All triangles that may be closer to each point than its bound, and how many."""
        found = self._tree.query_ball_point(points, bounds + self._reach.max())
        counts = np.fromiter(map(len, found), dtype=np.int64, count=len(found))
        faces = np.concatenate(found).astype(np.int64)
        owners = np.repeat(np.arange(len(points)), counts)
        offsets = points[owners] - self._centres[faces]
        kept = np.einsum("ij,ij->i", offsets, offsets) <= (bounds[owners] + self._reach[faces]) ** 2
        return faces[kept], np.bincount(owners[kept], minlength=len(points))

    def _closest(self, points: Array, faces: Array, counts: Array) -> Array:
        """The signed distance to the closest of each point's triangles."""
        signed = np.empty(len(points))
        starts = np.concatenate([[0], np.cumsum(counts)])
        first = 0
        while first < len(points):
            last = max(first + 1, int(np.searchsorted(starts, starts[first] + _PAIRS, "right")) - 1)
            some = faces[starts[first] : starts[last]]
            repeats = counts[first:last]
            pairs = np.repeat(points[first:last], repeats, axis=0)
            offset, feature = _nearest_in_triangles(pairs, self._corners[some])
            squares = np.einsum("ij,ij->i", offset, offset)
            best = _first_least(squares, starts[first:last] - starts[first], repeats)
            side = np.einsum("ij,ij->i", offset[best], self._normals[some[best], feature[best]])
            signed[first:last] = np.where(side < 0, -1, 1) * np.sqrt(squares[best])
            first = last
        return signed


def load_mesh(path: Path) -> Mesh:
    """Read a mesh from an ``.npz`` file with ``vertices`` and ``faces``, in a ball of radius 1.

    Raises:
        FileError: the file is missing, damaged or lacks an array.
        DataError: the mesh is not closed.
    """
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            vertices, faces = np.asarray(file["vertices"], np.float64), np.asarray(file["faces"])
    except (OSError, ValueError, KeyError, EOFError, AttributeError, TypeError) as error:
        raise FileError(
            path,
            expected="an .npz file with arrays vertices [v, 3] and faces [f, 3]",
            found=reason_of(error),
        ) from error
    _check(path, vertices, faces)
    vertices = vertices - (vertices.min(0) + vertices.max(0)) / 2
    vertices /= np.linalg.norm(vertices, axis=1).max()
    return Mesh(vertices, faces, subject=path)


def tetrahedron() -> tuple[Float[Array, "4 3"], Int[Array, "4 3"]]:
    """The smallest mesh, for examples and tests: all corners at distance 1 from the origin."""
    low, side = -1 / 3, np.sqrt(8) / 3
    angles = np.arange(3) * 2 * np.pi / 3
    base = np.stack([side * np.cos(angles), side * np.sin(angles), np.full(3, low)], 1)
    faces = np.array([[0, 1, 3], [1, 2, 3], [2, 0, 3], [0, 2, 1]])
    return np.concatenate([base, [[0.0, 0.0, 1.0]]]), faces


def _nearest_in_triangles(points: Array, corners: Array) -> tuple[Array, Array]:
    """From each triangle's closest point to its point, and the feature that this lies on.

    Features are the corners a, b, c (0, 1, 2), the sides ab, ac, bc (3, 4, 5) and the face (6):
    the Voronoi regions of Ericson, Real-Time Collision Detection, section 5.1.5.
    """
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    ab, ac = b - a, c - a
    products = [np.einsum("ij,ij->i", e, points - o) for o in (a, b, c) for e in (ab, ac)]
    d1, d2, d3, d4, d5, d6 = products
    va, vb, vc = d3 * d6 - d5 * d4, d5 * d2 - d1 * d6, d1 * d4 - d3 * d2
    regions = [
        (d1 <= 0) & (d2 <= 0),
        (d3 >= 0) & (d4 <= d3),
        (d6 >= 0) & (d5 <= d6),
        (vc <= 0) & (d1 >= 0) & (d3 <= 0),
        (vb <= 0) & (d2 >= 0) & (d6 <= 0),
        (va <= 0) & (d4 >= d3) & (d5 >= d6),
    ]
    feature = np.select(regions, list(range(6)), 6)
    total = va + vb + vc
    zero, one = np.zeros_like(d1), np.ones_like(d1)
    with np.errstate(divide="ignore", invalid="ignore"):  # only the chosen ones are used
        on_bc = (d4 - d3) / ((d4 - d3) + (d5 - d6))
        v = np.choose(feature, [zero, one, zero, d1 / (d1 - d3), zero, 1 - on_bc, vb / total])
        w = np.choose(feature, [zero, zero, one, zero, d2 / (d2 - d6), on_bc, vc / total])
    return points - a - v[:, None] * ab - w[:, None] * ac, feature


def _first_least(values: Array, starts: Array, counts: Array) -> Array:
    """Where the first least value of each stretch is."""
    least = np.minimum.reduceat(values, starts)
    places = np.where(values == np.repeat(least, counts), np.arange(len(values)), len(values))
    return np.minimum.reduceat(places, starts)


def _feature_normals(subject: object, vertices: Array, faces: Array) -> Float[Array, "f 7 3"]:
    """The pseudonormals of every face's corners, sides and inside, in the order of features."""
    corners = vertices[faces]
    cross = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    areas = np.linalg.norm(cross, axis=1, keepdims=True)
    if not (areas > 0).all():
        raise DataError(
            subject,
            expected="triangles with an area",
            found=f"{int((areas <= 0).sum())} without",
            hint="Remove them and join their corners.",
        )
    normals = cross / areas
    at_vertices = np.zeros_like(vertices)
    for corner in range(3):
        one, two = (corners[:, (corner + k) % 3] - corners[:, corner] for k in (1, 2))
        angle = np.arctan2(np.linalg.norm(np.cross(one, two), axis=1), (one * two).sum(1))
        np.add.at(at_vertices, faces[:, corner], angle[:, None] * normals)
    sides = np.sort(faces[:, [[0, 1], [0, 2], [1, 2]]], axis=2)
    _, which = np.unique(sides.reshape(-1, 2), axis=0, return_inverse=True)
    which = which.reshape(-1)
    at_sides = np.zeros((which.max() + 1, 3))
    np.add.at(at_sides, which, np.repeat(normals, 3, axis=0))
    return np.concatenate(
        [at_vertices[faces], at_sides[which].reshape(-1, 3, 3), normals[:, None]], axis=1
    )


def _check(subject: object, vertices: Array, faces: Array) -> None:
    """Check that a mesh is a closed, oriented surface."""
    shaped = vertices.ndim == faces.ndim == 2 and vertices.shape[1:] == faces.shape[1:] == (3,)
    if not shaped or not len(faces) or faces.dtype.kind not in "iu":
        raise DataError(
            subject,
            expected="vertices [v, 3] and faces [f, 3] of whole numbers, at least one",
            found=f"{vertices.shape} and {faces.shape} of {faces.dtype}",
        )
    if not np.isfinite(vertices).all() or faces.min() < 0 or faces.max() >= len(vertices):
        raise DataError(
            subject,
            expected=f"finite vertices, and faces of vertices 0 to {len(vertices) - 1}",
            found="NaN, infinity, or a number beyond",
        )
    sides = faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2).astype(np.int64)
    forward = sides[:, 0] * len(vertices) + sides[:, 1]
    backward = sides[:, 1] * len(vertices) + sides[:, 0]
    if len(np.unique(forward)) != len(forward) or set(forward.tolist()) != set(backward.tolist()):
        raise DataError(
            subject,
            expected="a closed surface: each side in two triangles, once in each direction",
            found=f"{len(faces)} triangles that have holes or are turned differently",
            hint="An inside is needed: close the holes and orient all triangles alike.",
        )
