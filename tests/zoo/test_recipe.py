"""What every recipe has: resumption, engines, options by name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.zoo import making
from tests.zoo.making import Backwards, tiny
from tests.zoo.zoos import contents
from weightspace.errors import DataError, FileError, ModelError
from weightspace.zoo import make_zoo, solids, verify
from weightspace.zoo.inr_audio import InrAudio
from weightspace.zoo.inr_recipe import InrImages
from weightspace.zoo.inr_shapes import InrShapes
from weightspace.zoo.inr_sines import InrSines
from weightspace.zoo.recipe import LocalPool, MadePart
from weightspace.zoo.recipes import RECIPES, make_recipe, recipe_options, recipe_summary

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (InrImages, InrAudio, InrShapes, InrSines):
        monkeypatch.setattr(kind, "part_size", 8)
    monkeypatch.setattr(solids, "POOL", 400)


@pytest.mark.slow
def test_killed_and_resumed_every_recipe_makes_the_same_files(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.zoo.making", str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "same\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", making.NAMES)
def test_processes_and_any_order_make_the_same_files(name: str, tmp_path: Path) -> None:
    recipe = tiny(name, tmp_path / "data")
    zoo = make_zoo(recipe, tmp_path / "one", engine=LocalPool(1))
    make_zoo(recipe, tmp_path / "back", engine=Backwards())
    assert contents(tmp_path / "back") == contents(tmp_path / "one")
    if name == "inr-shapes":  # which sends most to processes, and of most kinds
        make_zoo(recipe, tmp_path / "two", engine=LocalPool(2))
        assert contents(tmp_path / "two") == contents(tmp_path / "one")
    assert verify(zoo.path).ok
    assert len(zoo) == sum(map(recipe.networks, range(recipe.parts())))


@pytest.mark.parametrize("name", making.NAMES)
def test_a_seed_decides_everything(name: str, tmp_path: Path) -> None:
    recipe = tiny(name, tmp_path / "data")
    first, again = recipe.make_part(0), tiny(name, tmp_path / "data").make_part(0)
    other = making.smaller(recipe, {"seed": 4}).make_part(0)
    assert first.rows == again.rows
    for key, array in first.state.items():
        assert np.array_equal(array, again.state[key])
    assert [row["seed"] for row in first.rows] != [row["seed"] for row in other.rows]
    if name != "inr-audio":  # which has one initialisation, and no random signals
        key = next(iter(first.state))
        assert not np.array_equal(first.state[key], other.state[key])


@pytest.mark.parametrize("name", making.NAMES)
def test_a_zoo_is_continued_by_the_same_recipe_alone(name: str, tmp_path: Path) -> None:
    recipe = tiny(name, tmp_path / "data")
    make_zoo(recipe, tmp_path / "zoo", engine=LocalPool(1))
    with pytest.raises(FileError, match=r"recipe\.steps = 6 instead of 7"):
        make_zoo(making.smaller(recipe, {"steps": 7}), tmp_path / "zoo")


def test_a_failure_is_the_recipes_and_keeps_finished_parts(tmp_path: Path) -> None:
    recipe = tiny("inr-sines", tmp_path)

    class Failing(InrSines):
        def make_part(self, part: int) -> MadePart:
            if part == 2:
                raise DataError("part", expected="nothing", found="this")
            return recipe.make_part(part)

        def for_part(self, part: int) -> Any:
            return self

    failing = Failing(recipe.count, recipe.test, recipe.settings)
    with pytest.raises(DataError, match="expected nothing"):
        make_zoo(failing, tmp_path / "zoo", engine=LocalPool(1))
    assert len(list((tmp_path / "zoo").glob("part-*.json"))) == 2
    made: list[int] = []

    class Watched(LocalPool):
        def run(self, function: Any, tasks: Any) -> Any:
            for task in tasks:
                made.append(task.part)
                yield function(task)

    make_zoo(recipe, tmp_path / "zoo", engine=Watched())
    assert made == [2, 3]


def test_a_pool_has_no_more_processes_than_tasks() -> None:
    assert list(LocalPool(50).run(abs, [-3])) == [3]
    assert list(LocalPool(50).run(abs, [])) == []
    with pytest.raises(ModelError, match="workers"):
        LocalPool(-1)


def test_tasks_are_taken_as_they_are_needed() -> None:
    taken: list[int] = []

    def tasks() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield -number

    results = LocalPool(1).run(abs, tasks())
    assert next(results) == 0
    assert len(taken) <= 2
    results.close()


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_say_what_they_are(name: str) -> None:
    assert recipe_summary(name).endswith(".")
    options = {option.name: option for option in recipe_options(name)}
    assert options["seed"].default == 0
    assert all(option.meaning.endswith((".", ")")) for option in options.values()), options


def test_options_are_read_as_people_type_them() -> None:
    recipe = make_recipe(
        "inr-sines",
        {"count": 30, "hidden": "8", "steps": 5.0, "learning_rate": 1, "test": "0.5", "seed": 2},
    )
    assert isinstance(recipe, InrSines)
    assert (recipe.count, recipe.test) == (30, 0.5)
    settings = recipe.settings
    assert (settings.hidden, settings.steps, settings.seed) == ((8,), 5, 2)
    assert settings.learning_rate == 1.0
    images = make_recipe("inr-images", {"train": "12", "test": 4, "target_psnr": "none"})
    assert isinstance(images, InrImages)
    assert images.settings.target_psnr is None
    assert (len(images.images.train), len(images.images.test)) == (12, 4)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("inr-cines", {}, "recipe: expected one of inr-images, "),
        ("inr-sines", {"width": 3}, "recipe inr-sines: expected options seed, count.*'width'"),
        ("inr-sines", {"count": "many"}, "count: expected int, found 'many'.*count=1000"),
        ("inr-sines", {"count": 2.5}, "expected int, found 2.5"),
        ("inr-sines", {"count": True}, "expected int, found True"),
        ("inr-sines", {"hidden": "8,x"}, "hidden"),
        ("inr-sines", {"count": 0}, "count: expected a value from 1"),
        ("inr-images", {"train": "few"}, "train: expected int or NoneType, found 'few'"),
        ("inr-images", {"variant": "best"}, "variant: expected one of published,"),
        ("inr-images", {"images": "cats"}, "images: expected one of digits"),
        ("inr-images", {"images": "no.npz"}, "no.npz: expected an .npz file, found none"),
        ("inr-shapes", {"families": "blob"}, "families: expected some of sphere.*blob"),
        ("inr-shapes", {"families": "box,box"}, "each once, found box, box"),
        ("inr-shapes", {"meshes": "no.npz"}, "no.npz: expected an .npz file with arrays"),
        ("inr-audio", {"file": "no.npz"}, "no.npz: expected an .npz file of plain arrays"),
    ],
)
def test_options_that_make_no_recipe_are_refused(
    name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises((ModelError, DataError, FileError), match=message):
        make_recipe(name, options)
