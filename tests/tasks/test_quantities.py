"""Numbers as labels, and how well predictions of them agree."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.train.zoos import MIXED_SPECS
from weightspace.errors import DataError, FileError, StateError
from weightspace.graph import MixedGraph, NeuralGraph, Normalisation
from weightspace.nn.normaliser import Normaliser
from weightspace.tasks.classes import Classes
from weightspace.tasks.meanings import labels_of
from weightspace.tasks.quantities import Quantity, Share
from weightspace.tasks.scores import (
    EpochScore,
    explained,
    kendall_tau,
    regression_scores,
    spearman,
    squared_error,
)
from weightspace.testing import sample_graph

numbers = st.lists(
    st.floats(-1e6, 1e6, allow_nan=False).map(lambda x: round(x, 3)), min_size=2, max_size=30
).filter(lambda values: len(set(values)) > 1)


@given(numbers)
def test_numbers_come_back(values: list[float]) -> None:
    quantity = Quantity.of(values, column="loss")
    encoded = quantity.encode(values)
    spread = max(map(abs, values))
    assert encoded.double().mean() == pytest.approx(0, abs=1e-3)
    back = quantity.decode(encoded[:, None]).tolist()
    assert back == pytest.approx(values, abs=1e-5 * spread + 1e-5)
    again = Quantity.from_meaning(quantity.meaning())
    assert again.decode(encoded[:, None]).tolist() == back


def test_shares_stay_inside() -> None:
    share = Share.of([0.0, 0.25, 1.0], column="accuracy")
    assert share.encode([0.0, 0.25, 1.0]).tolist() == [0.0, 0.25, 1.0]
    said = share.decode(torch.tensor([[-50.0], [0.0], [50.0]])).tolist()
    assert said == pytest.approx([0.0, 0.5, 1.0])
    with pytest.raises(DataError, match=r"outside, such as 97"):
        Share.of([0.1, 0.2], column="accuracy", others=[97.0])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, None], "missing"),
        ([1.0, math.nan], "missing"),
        ([1.0, math.inf], "missing"),
        ([], "none"),
        ([2.0, 2.0], "nothing to learn"),
        (["a", "b"], "task classify"),
        ([True, False], "task classify"),
        ([[1.0], [2.0]], "a list"),
    ],
)
def test_columns_without_numbers(values: list[object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Quantity.of(values, column="loss")


def test_columns_of_classes() -> None:
    with pytest.raises(DataError, match="task regress"):
        Classes.of([i / 100 for i in range(60)] * 3, column="accuracy")
    with pytest.raises(DataError, match="share"):
        Classes.of([f"network {i}" for i in range(40)], column="name")
    with pytest.raises(DataError, match="share"):
        Classes.of(list(range(40)), column="seed")
    assert len(Classes.of([0.5, 1.5] * 20, column="w0")) == 2
    assert len(Classes.of(list(range(10)) * 2, column="digit")) == 10


def naive_tau(a: list[float], b: list[float]) -> float:
    """Kendall's tau-b from all pairs."""
    score = ties_a = ties_b = pairs = 0
    for i, j in itertools.combinations(range(len(a)), 2):
        pairs += 1
        ties_a += a[i] == a[j]
        ties_b += b[i] == b[j]
        score += int(np.sign(a[i] - a[j]) * np.sign(b[i] - b[j]))
    return score / math.sqrt((pairs - ties_a) * (pairs - ties_b))


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=3, max_size=20))
def test_scores_agree_with_their_definitions(pairs: list[tuple[int, int]]) -> None:
    a, b = (np.array(values, dtype=np.float64) for values in zip(*pairs, strict=True))
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        assert kendall_tau(a, b) == spearman(a, b) == 0
        return
    assert kendall_tau(a, b) == pytest.approx(naive_tau(a.tolist(), b.tolist()))
    ranks = [
        np.array([np.mean(np.flatnonzero(np.sort(x) == value)) for value in x]) for x in (a, b)
    ]
    assert spearman(a, b) == pytest.approx(np.corrcoef(*ranks)[0, 1])
    assert squared_error(a, b) == pytest.approx(((a - b) ** 2).mean())
    assert explained(a, b) == pytest.approx(1 - ((a - b) ** 2).sum() / ((b - b.mean()) ** 2).sum())


def test_scores_without_an_order() -> None:
    same, broken = np.ones(4), np.array([1.0, math.nan, 2.0, 3.0])
    assert kendall_tau(same, np.arange(4.0)) == 0
    assert kendall_tau(broken, np.arange(4.0)) == 0
    assert math.isnan(explained(np.arange(4.0), same))


def test_scores_of_batches_are_those_of_the_whole() -> None:
    generator = torch.Generator().manual_seed(0)
    a, b = torch.rand(50, generator=generator), torch.rand(50, generator=generator)
    whole, parts = EpochScore(kendall_tau), regression_scores()
    whole.update(a, b)
    for i in range(0, 50, 7):
        parts.update(a[i : i + 7], b[i : i + 7])
    assert parts.compute()["tau"] == whole.compute()


def test_meanings_that_are_damaged() -> None:
    for meaning in ({"kind": "editing"}, {}, {"kind": "regression"}, {"kind": "classification"}):
        with pytest.raises(FileError, match=r"m\.safetensors"):
            labels_of(meaning, Path("m.safetensors"))


def test_statistics_of_kinds_that_training_lacks() -> None:
    """A model for many specs can be fitted on one; unseen kinds keep their scale."""
    from weightspace.models import Requirements

    needs = Requirements.of(MIXED_SPECS)
    normaliser = Normaliser(Normalisation.identity(None, dict(needs.statistics)))
    # in any order of specs, and without the deepest, the only one with inner layers
    batch = MixedGraph.of(_samples([1, 0]))
    normaliser.fit(batch)
    fitted = normaliser.normalisation
    inner = [key for key in fitted.std if ":inner:" in key]
    assert inner
    assert all(float(fitted.std[key]) == 1.0 for key in inner)
    by_hand = Normalisation.fit(batch)
    for key, value in by_hand.std.items():
        assert torch.equal(fitted.std[key], value)
    one = Normaliser(Normalisation.identity(None, dict(needs.statistics)))
    one.fit(MixedGraph.of(_samples([0])))
    assert one.normalisation.spec is None
    alone = Normaliser(Normalisation.identity(None, {"edge:dense:first:9": 9}))
    with pytest.raises(StateError, match="layers"):
        alone.fit(batch)


def _samples(indices: list[int]) -> list[NeuralGraph]:
    return [sample_graph(MIXED_SPECS[i], 5, dtype=torch.float32) for i in indices]


def test_a_mixed_batch_moves_as_a_whole() -> None:
    batch = MixedGraph.of(_samples([0, 2]))
    moved = batch.to(torch.float64)
    assert moved.order == batch.order
    assert all(t.dtype == torch.float64 for part in moved.parts for t in part.edges.values())
