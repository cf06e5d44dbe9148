"""Recipes of implicit networks: what is in their rows, and how good the fits are."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.data import shared_data
from tests.zoo.making import cube_file, spoken
from weightspace.errors import DataError, FileError
from weightspace.zoo import Zoo, crossing_groups, make_zoo, solids
from weightspace.zoo.audio import load_spoken_digits
from weightspace.zoo.distance_fields import Box, Placed
from weightspace.zoo.inr_shapes import overlap
from weightspace.zoo.recipe import LocalPool
from weightspace.zoo.recipes import make_recipe
from weightspace.zoo.render import evaluate, render
from weightspace.zoo.solids import FAMILIES, random_placement


def made(name: str, folder: Path, **options: Any) -> Zoo:
    return make_zoo(make_recipe(name, options), folder / name, engine=LocalPool(1))


def test_waves_are_fitted_well(tmp_path: Path) -> None:
    zoo = made("inr-sines", tmp_path, count=48, refits=2, validation=0.2, test=0.25)
    assert zoo.splits == {"train": 58, "val": 14, "test": 24}
    assert crossing_groups(zoo.column("source").tolist(), zoo.column("split").tolist()) == []
    a, b = zoo.column("a"), zoo.column("b")
    for drawn in (a, b):
        assert 0 < drawn.min() < 1.5
        assert 8.5 < drawn.max() < 10
    assert abs(np.corrcoef(a[::2], b[::2])[0, 1]) < 0.4
    for points in (256, 1001):  # those of the fit, and others between them
        x = torch.linspace(-math.pi, math.pi, points, dtype=torch.float64)
        found = evaluate(zoo.spec, zoo.states(range(96)), x[:, None])[..., 0].double().numpy()
        wanted = a[:, None] * np.sin(b[:, None] * x.numpy())
        error = np.sqrt(((found - wanted) ** 2).mean(1))
        snr = 20 * np.log10(np.sqrt((wanted**2).mean(1)) / error)
        if points == 256:
            np.testing.assert_allclose(snr, zoo.column("snr"), atol=0.02)
            np.testing.assert_allclose(error, zoo.column("error"), rtol=2e-3)
        assert np.median(snr) > 35
        assert snr.min() > 12


def test_solids_are_fitted_well(tmp_path: Path) -> None:
    zoo = made("inr-shapes", tmp_path, count=18, test=0.5, validation=0.0)
    families = zoo.column("family").tolist()
    assert families == list(FAMILIES) * 2
    assert zoo.column("label").tolist() == list(range(9)) * 2
    assert np.mean(zoo.column("iou")) > 0.92
    assert np.min(zoo.column("iou")) > 0.8
    assert np.max(zoo.column("error")) < 0.015
    # The first is a sphere that its number and the seed decide: ask the network about it.
    for number in (0, 9):
        rng = np.random.default_rng([0, number, 0])
        placed = random_placement(rng, FAMILIES["sphere"](rng))
        points = np.random.default_rng(1).uniform(-1, 1, (5000, 3))
        found = evaluate(zoo.spec, zoo.states([number]), torch.from_numpy(points))[0, :, 0].numpy()
        wanted = placed.distance(points)
        assert np.abs(found - wanted).mean() == pytest.approx(zoo.column("error")[number], rel=0.2)
        assert overlap(found < 0, wanted < 0) == pytest.approx(zoo.column("iou")[number], abs=0.01)


def test_meshes_are_families_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solids, "POOL", 8000)
    mesh = str(cube_file(tmp_path / "cube.npz"))
    zoo = made(
        "inr-shapes", tmp_path, count=4, families="sphere", meshes=mesh, test=0.0, validation=0.0
    )
    assert zoo.column("family").tolist() == ["sphere", "cube", "sphere", "cube"]
    assert zoo.recipe["shapes"]["class_names"] == ["sphere", "cube"]
    assert len(zoo.recipe["shapes"]["meshes"][0]["sha256"]) == 64
    rng = np.random.default_rng([0, 1, 0])
    place = random_placement(rng)
    exact = Placed(Box((3**-0.5,) * 3), place.scale, place.rotation, place.shift)
    points = np.random.default_rng(1).uniform(-1, 1, (5000, 3))
    found = evaluate(zoo.spec, zoo.states([1]), torch.from_numpy(points))[0, :, 0].numpy()
    wanted = exact.distance(points)
    assert overlap(found < 0, wanted < 0) > 0.88
    assert zoo.column("iou")[1] == pytest.approx(overlap(found < 0, wanted < 0), abs=0.05)


@pytest.mark.slow
def test_the_shared_mesh_is_learned(tmp_path: Path) -> None:
    mesh = str(shared_data("shapes/spot_mesh.npz"))
    options = {"count": 2, "families": "sphere", "test": 0.0, "validation": 0.0}
    zoo = made("inr-shapes", tmp_path, meshes=mesh, **options)
    assert zoo.column("family").tolist() == ["sphere", "spot_mesh"]
    assert zoo.column("iou")[1] > 0.8
    assert zoo.column("error")[1] < 0.02


def test_sounds_keep_their_labels(tmp_path: Path) -> None:
    file = str(spoken(tmp_path / "spoken.npz"))
    zoo = made(
        "inr-audio", tmp_path, file=file, seconds=0.1, hidden="32,32", steps=500, validation=0.25
    )
    assert zoo.splits == {"train": 12, "val": 4, "test": 4}
    assert zoo.column("take")[zoo.split("test")].tolist() == [4] * 4
    assert zoo.column("label").tolist() == [0] * 10 + [1] * 10
    assert zoo.column("speaker").tolist() == (["anna"] * 5 + ["bert"] * 5) * 2
    assert zoo.column("speaker_label").tolist() == ([0] * 5 + [1] * 5) * 2
    recordings = load_spoken_digits(file)
    clips = np.stack([recordings.clip(number, 80)[0] for number in range(20)])
    assert np.abs(clips).max(1) == pytest.approx(1.0)
    time = torch.linspace(-1, 1, 80)[:, None]
    found = evaluate(zoo.spec, zoo.states(range(20)), time)[..., 0].numpy()
    snr = 10 * np.log10((clips**2).mean(1) / ((found - clips) ** 2).mean(1))
    np.testing.assert_allclose(zoo.column("snr"), snr, rtol=1e-2)
    assert snr.min() > 15


@pytest.mark.slow
def test_spoken_digits_are_heard(tmp_path: Path) -> None:
    file = str(shared_data("audio/fsdd_300.npz"))
    zoo = made("inr-audio", tmp_path, file=file, clips=4, validation=0.0)
    assert np.mean(zoo.column("snr")) > 20
    assert np.min(zoo.column("snr")) > 14
    assert zoo.recipe["audio"]["rate"] == 8000
    sources = zoo.column("source").tolist()
    again = make_recipe("inr-audio", {"file": file, "clips": 4, "validation": 0.0})
    assert again.make_part(0).rows[2]["source"] == sources[2] > 2


def test_clips_are_cut_or_followed_by_silence(tmp_path: Path) -> None:
    recordings = load_spoken_digits(spoken(tmp_path / "spoken.npz"))
    length = int(np.diff(recordings.offsets)[0])
    first = recordings.samples[:length].astype(np.float64)
    cut, _ = recordings.clip(0, length - 10)
    np.testing.assert_allclose(cut, first[:-10] / np.abs(first[:-10]).max(), atol=1e-6)
    whole, loudest = recordings.clip(0, length + 7)
    assert (whole[length:] == 0).all()
    assert loudest == np.abs(first).max() / 32768
    some = recordings.subset(7, seed=1)
    for place, source in enumerate(some.sources):
        assert np.array_equal(some.clip(place, 50)[0], recordings.clip(source, 50)[0])
        assert some.digit[place] == recordings.digit[source]
    assert some.sha256 != recordings.sha256


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"samples": np.zeros(9000)}, "16-bit samples of one channel, found float64"),
        ({"digit": np.zeros(3, int)}, "a digit, speaker and index for each recording"),
        ({"offsets": np.arange(21)[::-1].copy()}, "offsets that rise"),
        ({"offsets": np.arange(21) * 900}, "within the samples"),
    ],
)
def test_recordings_that_do_not_belong_together_are_refused(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with np.load(spoken(tmp_path / "good.npz")) as file:
        arrays = {key: file[key] for key in file.files}
    np.savez(tmp_path / "bad.npz", **{**arrays, **change})
    with pytest.raises(DataError, match=message):
        load_spoken_digits(tmp_path / "bad.npz")


def test_files_that_are_no_recordings_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", samples=np.zeros(3, np.int16))
    with pytest.raises(FileError, match="offsets, digit, speaker, index, rate missing"):
        load_spoken_digits(tmp_path / "other.npz")
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(FileError, match=r"an \.npz file of plain arrays"):
        load_spoken_digits(tmp_path / "text.npz")


def test_colour_images_are_fitted_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = shared_data("images/cifar10_2k_lossless.npz")
    monkeypatch.setenv("WEIGHTSPACE_DATA", str(path.parents[1]))
    options = {"images": "cifar10-lossless", "train": 6, "validation": 0.0, "refits": 2}
    zoo = made("inr-images", tmp_path, steps=300, hidden="32,32,32", **options)
    assert np.min(zoo.column("psnr")) > 22
    recipe = make_recipe("inr-images", options)
    shown = render(zoo.spec, zoo.states(range(0, 12, 2)), 32)
    images = recipe.images.train  # type: ignore[attr-defined]
    psnr = -10 * (shown - images).square().flatten(1).mean(1).log10()
    np.testing.assert_allclose(psnr, zoo.column("psnr")[::2], atol=1e-2)
    assert zoo.column("label")[::2].tolist() == recipe.images.train_labels.tolist()  # type: ignore[attr-defined]
