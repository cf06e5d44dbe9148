"""The commands ``weightspace zoo make`` and ``weightspace render`` on what it makes."""

from __future__ import annotations

import json
import wave
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.zoo.making import spoken
from weightspace.cli.main import main
from weightspace.zoo import Zoo


def run(*words: object) -> None:
    main([str(word) for word in words])


def fails(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """Run a command that must fail; what it says."""
    with pytest.raises(SystemExit) as ended:
        run(*words)
    assert ended.value.code == 2
    return " ".join(capsys.readouterr().err.split())


def test_recipes_are_listed_with_their_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("zoo", "make", "--list", "--json", tmp_path / "l.json")
    recipes = {recipe["name"]: recipe for recipe in json.loads((tmp_path / "l.json").read_text())}
    assert {"inr-images", "inr-audio", "inr-shapes", "inr-sines"} <= set(recipes)
    assert recipes["inr-sines"]["options"]["count"] == 1000
    assert "seed" not in recipes["inr-sines"]["options"]
    assert "inr-shapes" in capsys.readouterr().out
    run("zoo", "make", "inr-shapes", "--list", "--json", tmp_path / "o.json")
    assert json.loads((tmp_path / "o.json").read_text()) == recipes["inr-shapes"]
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "of solids; they take turns." in said
    assert "one more family" in said


def test_waves_are_made_and_shown(tmp_path: Path) -> None:
    words = ["zoo", "make", "inr-sines", "--out", tmp_path / "z", "--seed", 4, "--workers", 1]
    words += ["--option", "count=12", "steps=20", "hidden=8,8", "test=0.25", "validation=0.25"]
    run(*words, "--json", tmp_path / "m.json")
    made = json.loads((tmp_path / "m.json").read_text())
    assert made["networks"] == 12
    assert made["recipe"] == "inr-sines"
    assert set(made["measures"]) == {"a", "b", "error", "snr"}
    assert made["measures"]["snr"]["min"] <= made["measures"]["snr"]["mean"]
    zoo = Zoo.open(tmp_path / "z")
    assert zoo.recipe["seed"] == 4
    assert zoo.spec.parameter_count == 8 * 2 + 8 * 9 + 9
    run(*words)  # a finished zoo stays
    run("render", tmp_path / "z", "--networks", 1, 3, "--height", 90, "--out", tmp_path / "p")
    with Image.open(tmp_path / "p" / "z-3.png") as image:
        assert image.size == (180, 90)
        dark = np.asarray(image.convert("RGB")).astype(int)
    assert (dark[..., 2] - dark[..., 0] > 60).sum() > 100  # the curve is blue


def test_sounds_are_made_shown_and_heard(tmp_path: Path) -> None:
    file = spoken(tmp_path / "spoken.npz")
    options = ["--option", f"file={file}", "seconds=0.1", "hidden=24,24", "steps=300"]
    run("zoo", "make", "inr-audio", "--out", tmp_path / "z", "--workers", 1, *options)
    run("render", tmp_path / "z", "--out", tmp_path / "p", "--json", tmp_path / "r.json")
    listed = json.loads((tmp_path / "r.json").read_text())
    assert listed["images"] == [str(tmp_path / "p" / "z-0.png")]
    assert (listed["height"], listed["width"]) == (256, 512)
    with wave.open(listed["sounds"][0]) as sound:
        assert (sound.getnchannels(), sound.getsampwidth(), sound.getframerate()) == (1, 2, 16000)
        samples = np.frombuffer(sound.readframes(9999), "<i2") / 32767
    assert len(samples) == 1600
    with np.load(file) as arrays:
        clip = arrays["samples"][: min(80, arrays["offsets"][1])].astype(float)
    clip = np.pad(clip / np.abs(clip).max(), (0, 80 - len(clip)))
    heard = np.interp(np.linspace(-1, 1, 80), np.linspace(-1, 1, 1600), samples)
    assert np.corrcoef(clip, heard)[0, 1] > 0.9


def test_solids_are_made_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--option", "count=9", "families=sphere,box,torus", "hidden=16", "steps=100"]
    options += ["test=0", "validation=0"]
    run("zoo", "make", "inr-shapes", "--out", tmp_path / "z", "--workers", 1, *options)
    run("render", tmp_path / "z", "--height", 48, "--out", tmp_path / "p")
    with Image.open(tmp_path / "p" / "z-0.png") as image:
        assert image.size == (96, 48)
        picture = np.asarray(image).astype(int)
    blue = picture[..., 2] > picture[..., 0] + 20
    assert 0.05 < blue[:, :48].mean() < 0.6
    assert 0.05 < blue[:, 48:].mean() < 0.7
    error = fails(capsys, "render", tmp_path / "z", "--width", 48, "--height", 48)
    assert "width: expected 96" in error


def test_colour_images_are_made_and_shown(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 255, (8, 5, 5, 3), dtype=np.uint8)
    labels = np.arange(4) % 2
    np.savez(
        tmp_path / "i.npz", x_train=pixels[:4], y_train=labels, x_test=pixels[4:], y_test=labels
    )
    options = ["--option", f"images={tmp_path / 'i.npz'}", "refits=2", "validation=0"]
    run("zoo", "make", "inr-images", "--out", tmp_path / "z", "--workers", 1, *options)
    assert Zoo.open(tmp_path / "z").splits == {"train": 8, "test": 8}
    run("render", tmp_path / "z", "--height", 10, "--out", tmp_path / "p")
    with Image.open(tmp_path / "p" / "z-0.png") as image:
        assert (image.size, image.mode) == ((10, 10), "RGB")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["make"], "recipe: expected a name, found none. See them with --list."),
        (["make", "inr-signs"], "recipe: expected one of"),
        (["make", "inr-signs", "--list"], "recipe: expected one of"),
        (["make", "inr-sines", "--option", "wide=3"], "expected options seed, count"),
        (["make", "inr-sines", "--option", "count"], "expected NAME=VALUE"),
        (["make", "inr-sines", "--workers", "-1"], "workers: expected a value from 0"),
        (["make", "inr-audio", "--option", "file=no.npz"], "no.npz: expected an .npz file"),
    ],
)
def test_what_cannot_be_made_is_refused(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in fails(capsys, "zoo", *words)
    assert not list(tmp_path.iterdir())
