"""Loading images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.data import shared_data
from weightspace.errors import DataError, FileError
from weightspace.zoo.images import ImageSet, as_images, digits_images, load_images


def arrays(**changes: Any) -> dict[str, Any]:
    """Two training images, one test image."""
    content = {
        "x_train": np.array([[[0, 255], [51, 0]], [[1, 2], [3, 4]]], dtype=np.uint8),
        "y_train": np.array([1, 0], dtype=np.uint8),
        "x_test": np.full((1, 2, 2), 102, dtype=np.uint8),
        "y_test": np.array([2], dtype=np.uint8),
        **changes,
    }
    return {key: value for key, value in content.items() if value is not None}


def saved(folder: Path, **changes: Any) -> Path:
    """A file with some arrays changed; None leaves one out."""
    path = folder / "tiny.npz"
    np.savez_compressed(path, **arrays(**changes))
    return path


def test_bytes_become_values(tmp_path: Path) -> None:
    images = load_images(saved(tmp_path))
    assert images.name == "tiny"
    assert images.shape == (2, 2, 1)
    assert images.train.dtype == torch.float32
    torch.testing.assert_close(images.train[0, :, :, 0], torch.tensor([[0.0, 1.0], [0.2, 0.0]]))
    assert images.train_labels.tolist() == [1, 0]
    assert images.test_labels.tolist() == [2]
    assert images.class_names == ("0", "1", "2")
    assert images.train_sources.tolist() == [0, 1]
    assert images.test_sources.tolist() == [2]


def test_floats_colours_and_class_names(tmp_path: Path) -> None:
    x = np.random.default_rng(0).random((2, 4, 5, 3))
    names = np.array(["cat", "dog", "eel"])
    images = load_images(saved(tmp_path, x_train=x, x_test=x[:1], class_names=names), name="pets")
    assert (images.name, images.shape, images.class_names) == ("pets", (4, 5, 3), tuple(names))
    torch.testing.assert_close(images.train, torch.from_numpy(x).float())


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"y_test": None, "x_train": None}, FileError, "x_train, y_test missing"),
        ({"x_train": np.array([[1], [1, 2]], dtype=object)}, FileError, "never unpickled"),
        (
            {"y_train": np.array([1])},
            DataError,
            r"2 class indices.* shape \(1,\)",
        ),
        ({"y_train": np.array([0.5, 1.0])}, DataError, "found type float64"),
        ({"y_train": np.array([0, -1])}, DataError, "class indices from 0, found -1"),
        ({"x_test": np.zeros((1, 3, 2), dtype=np.uint8)}, DataError, r"shape \(2, 2, 1\), found"),
        ({"x_train": np.zeros((0, 2, 2), dtype=np.uint8)}, DataError, "at least one image"),
        ({"x_train": np.zeros((2, 2, 2), dtype=np.int64)}, DataError, "type int64. Convert with"),
        (
            {"x_train": np.full((2, 2, 2), 3.0)},
            DataError,
            "found values from 3 to 3",
        ),
        ({"x_train": np.full((2, 2, 2), np.nan)}, DataError, "replace NaN"),
        ({"x_train": np.zeros((2, 2))}, DataError, r"\[n, height, width\].* found \(2, 2\)"),
        ({"x_train": np.zeros((2, 3, 8, 8))}, DataError, "Move the channels last"),
        ({"class_names": np.array(["a"])}, DataError, "3 names, found 1"),
    ],
)
def test_bad_arrays_are_named(
    tmp_path: Path, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        load_images(saved(tmp_path, **changes))


def test_missing_and_damaged_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"an \.npz file, found none"):
        load_images(tmp_path / "none.npz")
    path = saved(tmp_path, x_train=np.random.default_rng(0).random((2, 40, 40)))
    content = path.read_bytes()
    for length in (0, 1, 30, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(FileError, match=r"tiny\.npz: expected an \.npz file"):
            load_images(path)
    damaged = bytearray(content)
    damaged[len(content) // 3 : len(content) // 3 + 40] = bytes(40)
    path.write_bytes(bytes(damaged))
    with pytest.raises(FileError):
        load_images(path)
    np.save(tmp_path / "single.npy", np.zeros(3))
    with pytest.raises(FileError, match="a single array"):
        load_images(tmp_path / "single.npy")


def test_a_pickle_is_not_executed(tmp_path: Path) -> None:
    path = tmp_path / "pickle.npz"
    path.write_bytes(b"cposix\nsystem\n(S'touch " + bytes(tmp_path / "made") + b"'\ntR.")
    with pytest.raises(FileError):
        load_images(path)
    assert not (tmp_path / "made").exists()


def test_lists_of_one_size_are_stacked_and_others_refused() -> None:
    assert as_images("images", [np.zeros((3, 3)), np.ones((3, 3))]).shape == (2, 3, 3, 1)
    with pytest.raises(DataError, match=r"one size, found 2 sizes, such as \(3, 3\) and \(4, 3\)"):
        as_images("images", [np.zeros((3, 3)), np.zeros((4, 3))])
    with pytest.raises(DataError, match="found an array of objects"):
        as_images("images", np.array([np.zeros((3, 3)), np.zeros((4, 3))], dtype=object))
    with pytest.raises(DataError, match="at least one image"):
        as_images("images", [])


def test_a_subset_keeps_the_numbers_of_its_images() -> None:
    x = np.arange(20, dtype=np.uint8).reshape(20, 1, 1)
    whole = ImageSet.of("numbers", x[:12], np.arange(12) % 3, x[12:], np.arange(8) % 3)
    part = whole.subset(5, 4, seed=1)
    assert (len(part.train), len(part.test)) == (5, 4)
    assert (part.train.flatten() * 255).round().long().tolist() == part.train_sources.tolist()
    assert (part.test.flatten() * 255).round().long().tolist() == part.test_sources.tolist()
    assert part.train_sources.tolist() == sorted(set(part.train_sources.tolist()))
    assert part.train_sources.tolist() == whole.subset(5, 4, seed=1).train_sources.tolist()
    assert part.train_sources.tolist() != whole.subset(5, 4, seed=2).train_sources.tolist()
    assert part.train_labels.tolist() == (part.train_sources % 3).tolist()
    with pytest.raises(DataError, match="at most the 8 test images there are, found 9"):
        whole.subset(5, 9)


def test_the_hash_is_of_the_contents() -> None:
    def make(**changes: Any) -> str:
        content = arrays(**changes)
        return ImageSet.of("any", *content.values()).sha256

    assert make() == make()
    assert make(y_test=np.array([1])) != make()
    assert make(x_test=np.full((1, 2, 2), 103, dtype=np.uint8)) != make()


def test_the_digits_have_a_stratified_test_set() -> None:
    digits = digits_images()
    assert digits.shape == (8, 8, 1)
    assert len(digits.train) + len(digits.test) == 1797
    assert abs(len(digits.test) - 0.2 * 1797) < 2
    for label in range(10):
        train, test = (
            (labels == label).sum() for labels in (digits.train_labels, digits.test_labels)
        )
        assert abs(test - 0.2 * (train + test)) <= 1
    assert (digits.train.min(), digits.train.max()) == (0.0, 1.0)
    assert torch.equal(digits.test_labels, digits_images().test_labels)


def test_mnist_is_read() -> None:
    images = load_images(shared_data("images/mnist.npz"))
    assert images.train.shape == (60000, 28, 28, 1)
    assert images.test.shape == (10000, 28, 28, 1)
    assert images.train_labels[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
