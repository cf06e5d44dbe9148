"""Maps of embeddings: repeatable, faithful to neighbours, and safe on odd input."""

from __future__ import annotations

import numpy as np
import pytest

from weightspace.errors import DataError
from weightspace.report import embedding, embedding_map
from weightspace.report.embedding import mapped_networks


@pytest.fixture
def islands() -> tuple[np.ndarray, np.ndarray]:
    labels = np.arange(90) % 3
    random = np.random.default_rng(0)
    return random.normal(size=(3, 20))[labels] * 5 + random.normal(size=(90, 20)), labels


def test_neighbours_stay_neighbours(islands: tuple[np.ndarray, np.ndarray]) -> None:
    values, labels = islands
    found = embedding_map(values, seed=0)
    distances = np.linalg.norm(found[:, None] - found, axis=-1)
    np.fill_diagonal(distances, np.inf)
    nearest = distances.argsort(axis=1)[:, :5]
    assert np.mean(labels[nearest] == labels[:, None]) > 0.99


def test_same_seed_same_map(islands: tuple[np.ndarray, np.ndarray]) -> None:
    values, _ = islands
    np.testing.assert_array_equal(embedding_map(values, seed=-3), embedding_map(values, seed=-3))


@pytest.mark.parametrize("networks", [0, 1, 2, 3, 7, 8, 9])
@pytest.mark.parametrize("width", [1, 2, 30])
def test_few_networks(networks: int, width: int) -> None:
    values = np.random.default_rng(0).normal(size=(networks, width))
    found = embedding_map(values, seed=0)
    assert found.shape == (networks, 2)
    assert np.isfinite(found).all()


@pytest.mark.parametrize(
    "values",
    [
        np.ones((20, 4)),
        np.zeros((20, 4)),
        np.repeat(np.eye(3), 10, axis=0),
        np.full((20, 3), 1e308) * np.linspace(-1, 1, 20)[:, None],
        np.zeros((20, 3)) + 1e-300 * np.arange(20)[:, None],
        np.arange(20, dtype=np.int64)[:, None],
    ],
    ids=["equal", "zero", "repeated", "huge", "tiny", "integers"],
)
def test_odd_embeddings(values: np.ndarray) -> None:
    found = embedding_map(values, seed=0)
    assert found.shape == (len(values), 2)
    assert np.isfinite(found).all()


def test_too_many_networks_are_chosen_from(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = mapped_networks(5000, seed=1, most=100)
    assert len(set(chosen.tolist())) == 100
    assert (np.diff(chosen) > 0).all()
    np.testing.assert_array_equal(chosen, mapped_networks(5000, seed=1, most=100))
    assert not np.array_equal(chosen, mapped_networks(5000, seed=2, most=100))
    assert len(mapped_networks(5000, seed=0)) == embedding.MOST_POINTS


def test_the_chosen_rows_are_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).normal(size=(2003, 1))
    rows = mapped_networks(2003, seed=4)
    seen: list[np.ndarray] = []

    def remember(given: np.ndarray) -> np.ndarray:
        seen.append(given)
        return np.zeros((len(given), 2))

    monkeypatch.setattr(embedding, "_principal_components", remember)
    assert embedding_map(values, seed=4).shape == (2000, 2)
    np.testing.assert_array_equal(seen[0], values[rows])


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (np.zeros(4), r"\(4,\)"),
        (np.array([[1.0], [np.nan], [np.inf]]), "2 networks with NaN"),
    ],
)
def test_bad_embeddings(values: np.ndarray, found: str) -> None:
    with pytest.raises(DataError, match=found):
        embedding_map(values, seed=0)
