"""Makes zoos on a local Ray cluster: ``python -m tests.zoo.ray_making FOLDER``."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import ray

from tests.zoo.making import small_parts, tiny
from tests.zoo.zoos import contents
from weightspace.errors import DataError, WeightspaceError
from weightspace.graph import GraphSpec
from weightspace.zoo import make_zoo, ray_engine
from weightspace.zoo.ray_engine import RayEngine
from weightspace.zoo.recipe import LocalPool, MadePart, PartMaker, Recipe


@dataclass(frozen=True)
class Deadly(Recipe):
    """A recipe whose worker is killed the first time it makes some part, or always.

    Args:
        inner: the recipe that makes the parts.
        marks: a folder that remembers deaths.
        always: the part that kills every worker.
    """

    name: ClassVar[str] = "deadly"
    inner: Any
    marks: Path
    always: int | None = None

    def specs(self) -> list[GraphSpec]:
        return list(self.inner.specs())

    def parts(self) -> int:
        return int(self.inner.parts())

    def networks(self, part: int) -> int:
        return int(self.inner.networks(part))

    def as_dict(self) -> dict[str, Any]:
        return dict(self.inner.as_dict())

    def for_part(self, part: int) -> PartMaker:
        return Deadly(self.inner.for_part(part), self.marks, self.always)

    def make_part(self, part: int) -> MadePart:
        mark = self.marks / str(part)
        if part == self.always or (part == 1 and not mark.exists()):
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        made: MadePart = self.inner.make_part(part)
        return made


@dataclass(frozen=True)
class Wrong(Deadly):
    """A recipe that fails."""

    def for_part(self, part: int) -> PartMaker:
        return self

    def make_part(self, part: int) -> MadePart:
        raise DataError("signals", expected="some", found=f"none in part {part}")


def main(folder: Path) -> None:
    """Make the same zoo on Ray with a death, after a failure, and locally; compare."""
    small_parts()
    ray_engine.TRIES = 1
    marks = folder / "marks"
    marks.mkdir(parents=True)
    recipe = tiny("inr-sines", folder / "data")
    make_zoo(recipe, folder / "local", engine=LocalPool(1))
    ray.init(num_cpus=1, log_to_driver=False, include_dashboard=False)
    try:
        _raises(DataError, Wrong(recipe, marks), folder / "zoo", "none in part")
        _raises(WeightspaceError, Deadly(recipe, marks, always=0), folder / "zoo", "Ray task")
        make_zoo(Deadly(recipe, marks), folder / "zoo", engine=RayEngine())
    finally:
        ray.shutdown()
    assert (marks / "1").exists()
    assert contents(folder / "zoo") == contents(folder / "local")
    sys.stdout.write("same\n")


def _raises(kind: type[Exception], recipe: Recipe, folder: Path, message: str) -> None:
    with pytest.raises(kind, match=message):
        make_zoo(recipe, folder, engine=RayEngine(1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
