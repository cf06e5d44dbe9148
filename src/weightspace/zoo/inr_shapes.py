"""The recipe of implicit networks of solids: their signed distance in space."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.errors import DataError, FileError, reason_of, require_between
from weightspace.graph import ChainRunner, GraphSpec
from weightspace.zoo.domains import PointSet
from weightspace.zoo.mesh_distance import load_mesh
from weightspace.zoo.signal_fit import FittedSignals, Samples
from weightspace.zoo.signal_recipe import Columns, InrRecipe, SignalRecipe, random_split
from weightspace.zoo.siren import PUBLISHED
from weightspace.zoo.solids import (
    FAMILIES,
    FieldSolid,
    MeshPool,
    MeshSolid,
    Sampled,
    Solid,
    random_placement,
)

Array = npt.NDArray[Any]

BATCHES, POINTS = 16, 512
"""Steps take sets of points by turns: so many sets of so many points, half near the surface."""

JUDGES = 8192
"""How many other points, spread evenly over the cube, a network is judged at."""

SETTINGS = InrRecipe(
    hidden=(32, 32, 32),
    variant=replace(PUBLISHED, offset=0.0),
    steps=600,
    learning_rate=3e-3,
    final_rate=0.02,
)


@dataclass(frozen=True)
class InrShapes(SignalRecipe):
    """SIRENs fitted to the signed distance of solids in the cube from -1 to 1.

    Families take turns. Further columns: ``label`` (the family's number), ``family``, and of the
    fit, at points that it has not seen, ``error`` (mean absolute error of the distance) and
    ``iou`` (what network and solid have in common, over what is in either).

    Args:
        count: how many solids.
        families: names of :data:`weightspace.zoo.solids.FAMILIES`.
        meshes: files with closed meshes, each a family of its placements.
        test: the share of the solids for testing.
        settings: how to fit.

    Raises:
        DataError: there is no family, one is unknown or given twice, or a mesh is not closed.
        FileError: a mesh cannot be read.
    """

    name: ClassVar[str] = "inr-shapes"
    part_size: ClassVar[int] = 64
    count: int = 1000
    families: tuple[str, ...] = tuple(FAMILIES)
    meshes: tuple[Path, ...] = ()
    test: float = 0.1
    settings: InrRecipe = field(default_factory=lambda: SETTINGS)

    def __post_init__(self) -> None:
        require_between("count", self.count, 1, 100_000_000)
        unknown = sorted(set(self.families) - set(FAMILIES))
        names = self.names
        if unknown or not names or len(set(names)) != len(names):
            raise DataError(
                "families",
                expected=f"some of {', '.join(FAMILIES)}, or meshes, each once",
                found=", ".join(unknown or names) or "none",
            )
        for path in self.meshes:
            load_mesh(path)

    @property
    def names(self) -> tuple[str, ...]:
        """The families' names, in the order of their labels."""
        return (*self.families, *(path.stem for path in self.meshes))

    def ends(self) -> tuple[int, int]:
        """Three coordinates, one distance."""
        return 3, 1

    def columns(self) -> Columns:
        """Number, split and family of each solid."""
        labels = [number % len(self.names) for number in range(self.count)]
        return {
            "source": list(range(self.count)),
            "split": random_split(labels, test=self.test, settings=self.settings),
            "label": labels,
            "family": [self.names[label] for label in labels],
        }

    def signals(self, places: Sequence[int]) -> ShapeSignals:
        """Some of the solids."""
        labels = [self.known["label"][place] for place in places]
        pools = {label: self._pools[label] for label in set(labels) if label in self._pools}
        return ShapeSignals(self.families, pools, self.settings.seed, list(places), labels)

    def data(self) -> dict[str, Any]:
        """Families, and the meshes' hashes."""
        meshes = [{"name": path.stem, "sha256": _sha256(path)} for path in self.meshes]
        points = {"batches": BATCHES, "points": POINTS, "judges": JUDGES}
        return {
            "shapes": {
                "count": self.count,
                "test": self.test,
                "class_names": self.names,
                "meshes": meshes,
            },
            "samples": points,
            "domain": {"low": -1.0, "high": 1.0},
        }

    @cached_property
    def _pools(self) -> dict[int, MeshPool]:
        """What is known around each mesh, by the meshes' labels."""
        first = len(self.families)
        return {first + n: MeshPool.of(load_mesh(path)) for n, path in enumerate(self.meshes)}


@dataclass(frozen=True, eq=False)
class ShapeSignals:
    """Solids as signals: each a function of the seed and its number.

    Args:
        families: the procedural families; further labels are meshes.
        pools: what is known around the meshes that occur, by label.
        seed: of the recipe.
        sources: the solids' numbers.
        labels: their families.
    """

    families: tuple[str, ...]
    pools: dict[int, MeshPool]
    seed: int
    sources: list[int]
    labels: list[int]

    def samples(self) -> list[Samples]:
        """Half of each set of points near the surface, half spread over the cube."""
        half = BATCHES * POINTS // 2
        drawn = [self._training(solid, rng, half) for solid, rng in self._solids()]
        points = _stacked([some.points for some in drawn])
        values = _stacked([some.distance for some in drawn])[..., None]
        parts = [slice(start, start + POINTS) for start in range(0, 2 * half, POINTS)]
        return [Samples(PointSet(points[:, part]), values[:, part]) for part in parts]

    @torch.no_grad()
    def measures(self, spec: GraphSpec, fitted: FittedSignals) -> Columns:
        """Mean absolute error, and intersection over union, at points not seen."""
        runner, output = ChainRunner(spec), spec.node_sets[-1].name
        errors, overlaps = [], []
        for number, (solid, _) in enumerate(self._solids()):
            rng = np.random.default_rng([self.seed, self.sources[number], 1])
            points, distance = solid.spread(rng, JUDGES, held_out=True)
            state = {name: tensor[number : number + 1] for name, tensor in fitted.state.items()}
            inputs = torch.from_numpy(points.astype(np.float32))
            found = runner.run_stacked(state, inputs)[output][0, :, 0].double().numpy()
            errors.append(float(np.abs(found - distance).mean()))
            overlaps.append(overlap(found < 0, distance < 0))
        return {"error": errors, "iou": overlaps}

    def _solids(self) -> list[tuple[Solid, np.random.Generator]]:
        """The solids, and for each where its further draws come from."""
        return [self._solid(*pair) for pair in zip(self.sources, self.labels, strict=True)]

    def _solid(self, source: int, label: int) -> tuple[Solid, np.random.Generator]:
        rng = np.random.default_rng([self.seed, source, 0])
        if label < len(self.families):
            solid = FAMILIES[self.families[label]](rng)
            return FieldSolid(random_placement(rng, solid)), rng
        return MeshSolid(self.pools[label], random_placement(rng)), rng

    def _training(self, solid: Solid, rng: np.random.Generator, half: int) -> Sampled:
        near, spread = solid.near(rng, half), solid.spread(rng, half)
        order = rng.permutation(2 * half)
        return Sampled(*(np.concatenate(pair)[order] for pair in zip(near, spread, strict=True)))


def overlap(first: Array, second: Array) -> float:
    """Intersection over union of two sets of points; 1 where both are empty."""
    either = np.count_nonzero(first | second)
    return np.count_nonzero(first & second) / either if either else 1.0


def inr_shapes(
    *,
    seed: int = 0,
    count: int = 1000,
    families: tuple[str, ...] = tuple(FAMILIES),
    meshes: tuple[str, ...] = (),
    test: float = 0.1,
    validation: float = 0.1,
    refits: int = 1,
    hidden: tuple[int, ...] = SETTINGS.hidden,
    steps: int = SETTINGS.steps,
    learning_rate: float = SETTINGS.learning_rate,
) -> InrShapes:
    """SIRENs of solids' signed distances, with the family as label.

    Args:
        seed: of every random choice.
        count: how many solids.
        families: of solids; they take turns.
        meshes: .npz files with vertices and faces of closed meshes, each one more family.
        test: the share of the solids for testing.
        validation: the share of the others for validation.
        refits: networks for each solid.
        hidden: sizes of the hidden layers.
        steps: updates of each network.
        learning_rate: of Adam, at first; it falls to a fiftieth.
    """
    settings = replace(
        SETTINGS,
        seed=seed,
        validation=validation,
        refits=refits,
        hidden=hidden,
        steps=steps,
        learning_rate=learning_rate,
    )
    return InrShapes(count, families, tuple(map(Path, meshes)), test, settings)


def _stacked(arrays: list[Array]) -> Float[Tensor, "networks points ..."]:
    return torch.from_numpy(np.stack(arrays).astype(np.float32))


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise FileError(path, expected="a file that can be read", found=reason_of(error)) from error
