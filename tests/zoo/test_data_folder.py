"""Images by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.data import shared_data
from weightspace.errors import DataError, FileError
from weightspace.zoo.data_folder import data_file, images_of, named_images


def test_digits_need_no_file() -> None:
    images = named_images("digits")
    assert images.shape == (8, 8, 1)
    assert len(images.train) + len(images.test) == 1797


def test_a_missing_file_says_how_to_name_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEIGHTSPACE_DATA", str(tmp_path))
    with pytest.raises(FileError, match="Set WEIGHTSPACE_DATA to the folder"):
        data_file("images/mnist.npz")


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(DataError, match="digits, mnist"):
        named_images("imagenet")


FILES = {
    "mnist": ("mnist.npz", (28, 28, 1), 60_000, 10_000),
    "fashion-mnist": ("fashion_mnist_20k.npz", (28, 28, 1), 10_000, 10_000),
    "cifar10-lossless": ("cifar10_2k_lossless.npz", (32, 32, 3), 2_000, 0),
}


@pytest.mark.parametrize("name", FILES)
def test_named_images(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file, shape, train, test = FILES[name]
    folder = shared_data(f"images/{file}").parents[1]
    monkeypatch.setenv("WEIGHTSPACE_DATA", str(folder))
    images = named_images(name)
    assert (images.shape, len(images.train), len(images.test)) == (shape, train, test)


def test_images_are_a_name_or_a_file(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    pixels, labels = np.zeros((3, 4, 4), dtype=np.uint8), np.array([0, 1, 1])
    np.savez(path, x_train=pixels, y_train=labels, x_test=pixels, y_test=labels)
    assert images_of(str(path)).shape == (4, 4, 1)
    assert images_of("digits").shape == (8, 8, 1)
    with pytest.raises(FileError):
        images_of(str(tmp_path / "missing.npz"))
    with pytest.raises(DataError, match="digits, mnist"):
        images_of("no-such-set")
