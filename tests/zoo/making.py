"""Tiny zoos by every recipe of implicit networks, made by processes that are killed.

As a script: ``python -m tests.zoo.making FOLDER``.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tests.zoo.fitting import noise_images
from tests.zoo.killing import run_child
from tests.zoo.test_mesh_distance import cube
from tests.zoo.zoos import contents
from weightspace.zoo import Recipe, make_zoo, solids
from weightspace.zoo.audio import load_spoken_digits
from weightspace.zoo.inr_audio import InrAudio
from weightspace.zoo.inr_recipe import InrImages
from weightspace.zoo.inr_shapes import InrShapes
from weightspace.zoo.inr_sines import InrSines
from weightspace.zoo.recipe import Engine, LocalPool
from weightspace.zoo.signal_recipe import SignalRecipe

T = TypeVar("T")
R = TypeVar("R")

NAMES = ("inr-images", "inr-audio", "inr-shapes", "inr-sines")


def spoken(path: Path, clips: int = 20) -> Path:
    """Write noise as spoken digits: two digits, two speakers, five takes."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(30, 90, clips)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    wave = 9000 * np.sin(np.arange(offsets[-1]) / 5) + rng.normal(0, 50, offsets[-1])
    place = np.arange(clips)
    np.savez(
        path,
        samples=wave.astype(np.int16),
        offsets=offsets,
        digit=(place // 10).astype(np.uint8),
        speaker=np.array(["anna", "bert"])[place // 5 % 2],
        index=(place % 5).astype(np.uint8),
        rate=np.int64(800),
    )
    return path


def cube_file(path: Path) -> Path:
    """Write a cube as a mesh."""
    vertices, faces = cube()
    np.savez(path, vertices=vertices, faces=faces)
    return path


def tiny(name: str, folder: Path) -> SignalRecipe:
    """A recipe of 20 networks or so that takes a fraction of a second."""
    folder.mkdir(exist_ok=True, parents=True)
    settings = {"hidden": (6,), "steps": 6, "seed": 3, "validation": 0.3}
    if name == "inr-images":
        recipe = InrImages(noise_images())
        return smaller(recipe, settings, refits=2)
    if name == "inr-audio":
        path = folder / "spoken.npz"
        recordings = load_spoken_digits(path if path.exists() else spoken(path))
        return smaller(InrAudio(recordings, seconds=0.1), settings)
    if name == "inr-shapes":
        path = folder / "cube.npz"
        mesh = path if path.exists() else cube_file(path)
        return smaller(InrShapes(14, ("sphere", "twist"), (mesh,), test=0.3), settings)
    return smaller(InrSines(13, test=0.3), settings, refits=2)


def smaller(recipe: Any, settings: dict[str, Any], **more: Any) -> Any:
    """The same recipe with other settings."""
    changed = dataclasses.replace(recipe.settings, **settings, **more)
    return dataclasses.replace(recipe, settings=changed)


def small_parts() -> None:
    """Make parts of a few networks, and meshes that are known at few points."""
    for kind in (InrImages, InrAudio, InrShapes, InrSines):
        kind.part_size = 8
    solids.POOL = 400


class Dying(Engine):
    """An engine whose process is killed after some parts.

    Args:
        parts: how many.
    """

    def __init__(self, parts: int) -> None:
        self.parts = parts

    def run(self, function: Callable[[T], R], tasks: Iterable[T]) -> Generator[R, None, None]:
        """Run tasks in this process until its time has come."""
        for number, task in enumerate(tasks):
            if number == self.parts:
                os.kill(os.getpid(), signal.SIGKILL)
            yield function(task)


class Backwards(Engine):
    """An engine whose results come in the opposite order."""

    def run(self, function: Callable[[T], R], tasks: Iterable[T]) -> Generator[R, None, None]:
        """Run all, then give them back."""
        yield from reversed([function(task) for task in tasks])


def make(recipe: Recipe, folder: Path, engine: Engine) -> None:
    """Make a zoo in a child process."""
    make_zoo(recipe, folder, engine=engine)


def main(folder: Path) -> None:
    """Kill each recipe after one part and in the middle of others; compare with a calm zoo."""
    small_parts()
    for name in NAMES:
        recipe = tiny(name, folder / "data")
        assert recipe.parts() >= 2, name
        make(recipe, folder / f"{name}-calm", LocalPool(1))
        calm = contents(folder / f"{name}-calm")
        killed = folder / f"{name}-killed"
        ended = run_child(make, recipe, killed, Dying(1))
        assert ended == signal.SIGKILL, (name, ended)
        assert not (killed / "zoo.json").exists()
        made = {path.name for path in killed.glob("part-*.json")}
        assert len(made) == 1, made
        assert run_child(make, tiny(name, folder / "data"), killed, Backwards()) == 0
        assert contents(killed) == calm, name
    sys.stdout.write("same\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
