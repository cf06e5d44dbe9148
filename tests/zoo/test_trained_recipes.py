"""Recipes of trained networks: rows, splits, the same again, and networks that run."""

from __future__ import annotations

import dataclasses
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.data import shared_data
from weightspace.errors import DataError, FileError, ModelError
from weightspace.zoo import Zoo, crossing_groups, verify
from weightspace.zoo.classifiers import Classifiers
from weightspace.zoo.classifying import training_subset
from weightspace.zoo.cnn_wild_park import CnnWildPark
from weightspace.zoo.cnn_zoo import CnnZoo
from weightspace.zoo.image_recipe import ImageRecipe
from weightspace.zoo.images import ImageSet, digits_images
from weightspace.zoo.language_models import LanguageModels
from weightspace.zoo.pictures import PictureChoice, as_values, evenly, pictures_of
from weightspace.zoo.rebuilding import load_network
from weightspace.zoo.recipe import LocalPool, make_zoo
from weightspace.zoo.recipes import make_recipe, recipe_options, recipe_summary
from weightspace.zoo.texts import ALPHABET, read_text
from weightspace.zoo.trained_recipe import TrainedRecipe
from weightspace.zoo.vit_zoo import VitZoo

SMALL: dict[str, Any] = {"updates": 30, "checkpoints": 2, "batch": 16, "seed": 3}
DIGITS: dict[str, Any] = {**SMALL, "images": "digits", "side": 16, "measured": 150}
RECIPES: dict[str, TrainedRecipe] = {
    "cnn-zoo": CnnZoo(count=12, siblings=4, **DIGITS),
    "cnn-wild-park": CnnWildPark(
        count=8, siblings=2, **{**DIGITS, "validation": 0.25, "test": 0.25}
    ),
    "classifiers": Classifiers(count=8, siblings=8, **{**DIGITS, "side": 8}, hidden=(16,)),
    "classifiers-cnn": Classifiers(count=8, siblings=8, **DIGITS, kind="cnn"),
    "vit-zoo": VitZoo(count=8, siblings=2, shapes=2, **{**DIGITS, "side": 8}, patch=4),
    "language-models": LanguageModels(
        count=8, siblings=2, shapes=2, context=12, measured=40, **SMALL
    ),
}


@pytest.fixture(scope="module", params=RECIPES)
def made(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[TrainedRecipe, Zoo]:
    recipe = RECIPES[request.param]
    zoo = make_zoo(recipe, tmp_path_factory.mktemp("zoo") / "zoo", engine=LocalPool(1))
    return recipe, zoo


def test_a_zoo_has_every_network_at_every_checkpoint(made: tuple[TrainedRecipe, Zoo]) -> None:
    recipe, zoo = made
    assert len(zoo) == recipe.count * recipe.checkpoints
    assert sum(recipe.networks(part) for part in range(recipe.parts())) == len(zoo)
    model, update = zoo.column("model").tolist(), zoo.column("update").tolist()
    assert model == [n for n in range(recipe.count) for _ in recipe.moments()]
    assert update == recipe.moments() * recipe.count
    assert len(set(zoo.column("seed").tolist())) == recipe.count
    assert not zoo.column("diverged").any()
    assert verify(zoo.path).ok
    assert zoo.recipe["name"] == recipe.name


def test_splits_go_by_network(made: tuple[TrainedRecipe, Zoo]) -> None:
    recipe, zoo = made
    split = zoo.column("split").tolist()
    assert set(split) == {"train", "val", "test"}
    assert crossing_groups(zoo.column("model").tolist(), split) == []
    if recipe.by_part:
        parts = [model // recipe.siblings for model in zoo.column("model").tolist()]
        assert crossing_groups(parts, split) == []


def test_stored_networks_run_and_reach_what_their_rows_say(made: tuple[TrainedRecipe, Zoo]) -> None:
    recipe, zoo = made
    for index in (1, len(zoo) - 2):
        network = load_network(zoo, index)
        row = zoo.metadata.slice(index, 1).to_pylist()[0]
        with torch.no_grad():
            if isinstance(recipe, ImageRecipe):
                images, labels = recipe.pictures.test_sample(recipe.measured)
                logits = network(images)
                accuracy = float((logits.argmax(1) == labels).float().mean())
                assert row["test_accuracy"] == pytest.approx(accuracy, abs=0.01)
                assert row["test_loss"] == pytest.approx(
                    float(F.cross_entropy(logits, labels)), rel=1e-3
                )
            else:
                assert isinstance(recipe, LanguageModels)
                text, context = read_text(recipe.text).test, recipe.context
                windows = text.unfold(0, context + 1, 1)
                windows = windows[evenly(len(text) - context, recipe.measured)]
                logits = network(windows[:, :-1])
                loss = F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
                assert row["test_bits"] == pytest.approx(float(loss) / np.log(2), rel=1e-3)


def test_networks_learn(made: tuple[TrainedRecipe, Zoo]) -> None:
    recipe, zoo = made
    last = zoo.column("update") == recipe.updates
    losses = zoo.column("train_loss")
    assert np.median(losses[last]) < np.median(losses[~last])


def test_a_part_is_the_same_again_in_another_process(made: tuple[TrainedRecipe, Zoo]) -> None:
    recipe, zoo = made
    sent = pickle.loads(pickle.dumps(recipe))  # noqa: S301 (made here)
    assert sent == recipe
    part = recipe.parts() - 1
    again = sent.make_part(part)
    first = len(zoo) - recipe.networks(part)
    rows = zoo.metadata.slice(first).to_pylist()
    assert again.rows == [
        {k: v for k, v in row.items() if k not in ("network", "spec")} for row in rows
    ]
    for name, tensor in zoo.states(range(first, len(zoo))).items():
        assert torch.equal(torch.from_numpy(again.state[name]), tensor)
    assert dataclasses.replace(recipe, seed=9).network_seed(0) != recipe.network_seed(0)


def test_rows_name_the_training_images() -> None:
    recipe = RECIPES["classifiers"]
    row = recipe.hyperparameters(2)
    assert row["training_images"] == round(0.5 * len(digits_images().train))
    subsets = {
        tuple(sorted(training_subset(1400, 5, recipe.hyperparameters(n)["subset_seed"]).tolist()))
        for n in range(8)
    }
    assert len(subsets) == 8


def test_hyperparameters_vary_and_are_independent_of_the_rest() -> None:
    recipe = dataclasses.replace(RECIPES["cnn-zoo"], count=400)
    rows = [recipe.hyperparameters(number) for number in range(400)]
    for column, values in (("optimiser", 3), ("initialisation", 5), ("training_fraction", 4)):
        assert len({row[column] for row in rows}) == values
    assert len({row["learning_rate"] for row in rows}) == 400
    assert {rows[n]["activation"] for n in range(4)} == {"relu"}
    assert rows[:12] == [RECIPES["cnn-zoo"].hyperparameters(number) for number in range(12)]


def test_wild_architectures_are_all_different() -> None:
    recipe = CnnWildPark(count=600, siblings=2, **DIGITS)
    found = recipe.architectures()
    assert len(set(found)) == 300
    assert {len(a.widths) for a in found} == set(range(2, 9))


def test_a_diverged_network_is_recorded_with_finite_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = CnnZoo.drawn

    def wild(self: CnnZoo, number: int) -> dict[str, Any]:
        row = drawn(self, number)
        return {**row, "optimiser": "sgd", "learning_rate": 1e6} if number == 1 else row

    monkeypatch.setattr(CnnZoo, "drawn", wild)
    part = CnnZoo(count=9, siblings=3, **DIGITS).make_part(0)
    assert [row["diverged"] for row in part.rows] == [False, False, True, True, False, False]
    assert all(np.isfinite(array).all() for array in part.state.values())
    assert all(np.isfinite(row["test_loss"]) for row in part.rows)


def test_pictures_become_grey_and_small() -> None:
    images = torch.rand(3, 8, 8, 3)
    found = pictures_of(ImageSet.of("x", images, [0, 1, 2], images, [0, 1, 2]), grey=True, side=4)
    luma = (images * torch.tensor([0.299, 0.587, 0.114])).sum(-1)
    means = luma.view(3, 4, 2, 4, 2).mean((2, 4))
    torch.testing.assert_close(as_values(found.train)[:, 0], means, atol=0.5 / 255 + 1e-6, rtol=0)
    with pytest.raises(DataError, match="test images"):
        pictures_of(ImageSet.of("x", images, [0, 1, 2]))


def test_images_come_from_a_file_of_ones_own(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 255, (4, 6, 6), dtype=np.uint8)
    labels = [0, 1, 2, 1]
    path = tmp_path / "own.npz"
    np.savez(path, x_train=images, y_train=labels, x_test=images, y_test=labels)
    found = PictureChoice(str(path)).read()
    assert torch.equal(found.train[:, 0], torch.from_numpy(images))
    assert found.classes == 3


def test_texts(tmp_path: Path) -> None:
    text = read_text("python")
    assert len(text.train) > 100_000
    assert int(text.train.max()) < len(ALPHABET)
    (tmp_path / "short.txt").write_text("too short")
    with pytest.raises(DataError, match="at least 1000 characters"):
        read_text(str(tmp_path / "short.txt"))
    with pytest.raises(FileError, match="a text file"):
        read_text(str(tmp_path / "none.txt"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": 0}, "count"),
        ({"updates": 3, "checkpoints": 4}, "checkpoints"),
        ({"validation": 0.6, "test": 0.5}, "test"),
        ({"activations": ()}, "activations"),
        ({"activations": ("relu", "swish")}, "activation"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        CnnZoo(**options)


def test_too_few_networks_are_noticed_before_any_is_trained() -> None:
    with pytest.raises(DataError, match="too few for it"):
        CnnZoo(count=3)


def test_a_cnn_needs_grey_images() -> None:
    with pytest.raises(ModelError, match="grey"):
        Classifiers(kind="cnn", grey=False)
    with pytest.raises(ModelError, match="kind"):
        Classifiers(kind="tree")


def test_mnist_is_learnt_in_seconds() -> None:
    shared_data("images/mnist.npz")
    recipe = CnnZoo(count=8, siblings=8, updates=150, checkpoints=1, measured=500)
    part = recipe.make_part(0)
    assert max(row["test_accuracy"] for row in part.rows) > 0.5
    assert PictureChoice("mnist", grey=True).read().shape == (1, 28, 28)


@pytest.mark.parametrize("recipe", dict.fromkeys(map(type, RECIPES.values())))
def test_recipes_are_made_by_name_with_options_as_typed(recipe: type[TrainedRecipe]) -> None:
    made = make_recipe(recipe.name, {"count": "40", "validation": "0.2", "seed": 4})
    assert made == recipe(count=40, validation=0.2, seed=4)
    assert {option.name for option in recipe_options(recipe.name)} >= {"updates", "checkpoints"}
    assert recipe_summary(recipe.name).endswith(".")


def test_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "zoos.md").read_text()
    (code,) = [part for part in re.findall(r"```python\n(.*?)```", page, re.S) if "CnnZoo" in part]
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "zoos.md", "exec"), {})
    measured, stored = capsys.readouterr().out.removeprefix("tensor(").split(") ")
    assert float(measured) == pytest.approx(float(stored), abs=1e-3)


@pytest.mark.parametrize(
    "recipe", [CnnZoo(images="digits"), Classifiers(images="digits", kind="cnn", side=8)]
)
def test_images_that_are_too_small_are_named(recipe: TrainedRecipe) -> None:
    with pytest.raises(DataError, match=r"images digits.*15 x 15.*found 8 x 8.*side=15"):
        recipe.make_part(0)
