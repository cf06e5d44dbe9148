"""The recipe of implicit networks: rows, splits, interruption."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch

from tests.zoo.fitting import PART, RECIPE, SLOW, make, noise_images
from tests.zoo.zoos import contents
from weightspace.errors import FileError, ModelError
from weightspace.zoo import Zoo, crossing_groups, signal_recipe, verify
from weightspace.zoo.images import digits_images
from weightspace.zoo.inr_fit import fit_inrs
from weightspace.zoo.inr_recipe import InrImages, fit_inr_zoo
from weightspace.zoo.render import render
from weightspace.zoo.signal_recipe import InrRecipe, network_seed
from weightspace.zoo.siren import PUBLISHED

SHARED = dataclasses.replace(PUBLISHED, shared_init=1)
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InrImages, "part_size", PART)


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    return make(tmp_path_factory.mktemp("zoo") / "zoo", 1)


def test_every_image_has_its_refits_and_one_split(zoo: Zoo) -> None:
    images = noise_images()
    assert len(zoo) == 17 * 3
    assert zoo.column("source").tolist() == [n // 3 for n in range(51)]
    assert zoo.column("refit").tolist() == [n % 3 for n in range(51)]
    labels = torch.cat([images.train_labels, images.test_labels]).tolist()
    assert zoo.column("label").tolist() == [labels[n // 3] for n in range(51)]
    assert zoo.splits == {"train": 27, "val": 9, "test": 15}
    assert zoo.split("test").tolist() == list(range(36, 51))
    split = zoo.column("split").tolist()
    assert crossing_groups(zoo.column("source").tolist(), split) == []
    assert set(zoo.column("label")[zoo.split("val")]) == {0, 1, 2}
    assert verify(zoo.path).ok


def test_rows_say_how_to_fit_the_network_again(zoo: Zoo) -> None:
    images = noise_images()
    everything = torch.cat([images.train, images.test])
    indices = [4, 17, 50]
    sources, seeds = zoo.column("source")[indices], zoo.column("seed")[indices]
    fitted = fit_inrs(
        everything[sources.tolist()],
        seeds=seeds.tolist(),
        hidden=RECIPE.hidden,
        steps=RECIPE.steps,
        learning_rate=RECIPE.learning_rate,
    )
    for name, tensor in zoo.states(indices).items():
        torch.testing.assert_close(fitted.state[name], tensor, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(zoo.column("psnr")[indices], fitted.psnr, rtol=1e-3)
    assert zoo.column("steps").tolist() == [RECIPE.steps] * 51
    seed = network_seed(RECIPE.seed, int(sources[1]), 17 % 3)
    assert zoo.column("seed")[17] == seed
    assert len(set(zoo.column("seed").tolist())) == 51


def test_the_networks_show_the_images_they_name(zoo: Zoo) -> None:
    images = noise_images()
    everything = torch.cat([images.train, images.test])[zoo.column("source").tolist()]
    shown = render(zoo.spec, zoo.states(range(51)), 6)
    psnr = -10 * (shown - everything).square().flatten(1).mean(1).log10()
    np.testing.assert_allclose(zoo.column("psnr"), psnr, rtol=1e-3)
    others = -10 * (shown - everything.roll(3, 0)).square().flatten(1).mean(1).log10()
    assert bool((psnr > others + 2).all())


def test_the_zoo_says_what_it_was_made_from(zoo: Zoo) -> None:
    recipe = zoo.recipe
    assert recipe["images"]["sha256"] == noise_images().sha256
    assert recipe["variant"] == dataclasses.asdict(PUBLISHED)
    assert (recipe["steps"], recipe["refits"], recipe["seed"]) == (100, 3, 5)
    assert zoo.spec.node_sets[-1].activation.name == "offset"


def test_finished_parts_are_not_made_again(tmp_path: Path, monkeypatch: Any, zoo: Zoo) -> None:
    calls: list[int] = []
    fit = signal_recipe._Part.make_part

    def stop_at_three(maker: Any, part: int) -> Any:
        if len(calls) == 3:
            raise KeyboardInterrupt
        calls.append(part)
        return fit(maker, part)

    monkeypatch.setattr(signal_recipe._Part, "make_part", stop_at_three)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "zoo", 1)
    monkeypatch.setattr(
        signal_recipe._Part,
        "make_part",
        lambda maker, part: calls.append(part) or fit(maker, part),
    )
    make(tmp_path / "zoo", 1)
    assert calls == list(range(7))
    assert contents(tmp_path / "zoo") == contents(zoo.path)


def test_several_processes_make_the_same_zoo(tmp_path: Path, zoo: Zoo) -> None:
    make(tmp_path / "zoo", 2)
    assert contents(tmp_path / "zoo") == contents(zoo.path)


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_killed_it_takes_its_workers_along_and_goes_on(tmp_path: Path, sent: int) -> None:
    command = [sys.executable, "-m", "tests.zoo.fitting", str(tmp_path / "zoo"), "2"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE) as process:
        wait_for(lambda: list((tmp_path / "zoo").glob("part-*.json")))
        workers = psutil.Process(process.pid).children(recursive=True)
        assert len(workers) >= 2
        process.send_signal(sent)
        assert process.wait(20) != 0
        gone, alive = psutil.wait_procs(workers, timeout=20)
    assert gone
    assert not alive
    assert not (tmp_path / "zoo" / "zoo.json").exists()
    for folder in ("zoo", "calm"):
        make(tmp_path / folder, 1, SLOW)
    assert contents(tmp_path / "zoo") == contents(tmp_path / "calm")


def wait_for(condition: Any, seconds: float = 60.0) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.005)


def test_another_recipe_or_other_images_need_another_folder(tmp_path: Path, zoo: Zoo) -> None:
    assert len(make(zoo.path, 1)) == 51
    with pytest.raises(FileError, match=r"recipe.steps = 100 instead of 99"):
        make(zoo.path, 1, dataclasses.replace(RECIPE, steps=99))
    with pytest.raises(FileError, match=r"recipe.images.sha256"):
        fit_inr_zoo(noise_images(seed=1), zoo.path, recipe=RECIPE, workers=1)


def test_a_goal_of_quality_stops_networks_one_by_one(tmp_path: Path) -> None:
    recipe = dataclasses.replace(RECIPE, target_psnr=12.0, refits=1)
    made = make(tmp_path / "zoo", 1, recipe)
    steps = made.column("steps")
    assert len(set(steps.tolist())) > 3
    assert (made.column("psnr")[steps < 100] >= 12.0 - 1e-6).all()


def test_without_validation_all_training_images_train(tmp_path: Path) -> None:
    made = make(tmp_path / "zoo", 1, dataclasses.replace(RECIPE, validation=0.0, refits=1))
    assert made.splits == {"train": 12, "test": 5}


def test_a_subset_keeps_sources_and_seeds(tmp_path: Path) -> None:
    digits = digits_images().subset(20, 4)
    recipe = InrRecipe(hidden=(4,), steps=2, validation=0.5)
    made = fit_inr_zoo(digits, tmp_path / "zoo", recipe=recipe, workers=1)
    sources = made.column("source").tolist()
    assert sources == [*digits.train_sources.tolist(), *digits.test_sources.tolist()]
    assert made.column("seed").tolist() == [network_seed(0, source, 0) for source in sources]


def test_seeds_are_the_same_everywhere() -> None:
    assert network_seed(0, 0, 0) == 155694420
    assert network_seed(1, 2, 3) != network_seed(1, 23, 0)


@pytest.mark.parametrize("options", [{"refits": 0}, {"refits": 2, "variant": SHARED}])
def test_refits_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="refits"):
        InrRecipe(**options)
