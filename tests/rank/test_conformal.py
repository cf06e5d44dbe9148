"""Intervals against a naive oracle, and their coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.rank.tables import table
from weightspace.errors import ModelError
from weightspace.rank import fit_ranking
from weightspace.rank.conformal import Calibration
from weightspace.rank.folds import source_weights


def naive(calibration: Calibration, row: np.ndarray, coverage: float) -> tuple[float, float]:
    """CV+ as the paper writes it, for sources of one network each."""
    count = len(calibration.errors)
    place = math.ceil(coverage * (count + 1) - 1e-9)
    own = [row[fold] for fold in calibration.folds]
    above = sorted(s + e for s, e in zip(own, calibration.errors, strict=True))
    below = sorted(e - s for s, e in zip(own, calibration.errors, strict=True))
    return (math.inf, math.inf) if place > count else (below[place - 1], above[place - 1])


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("count", [9, 20, 37])
def test_the_interval_is_that_of_the_paper(count: int, coverage: float) -> None:
    generator = np.random.default_rng(count)
    calibration = Calibration(np.arange(count) % 4, generator.random(count), np.ones(count))
    predictions = generator.normal(size=(5, 4))
    low, high = calibration.interval(predictions, coverage=coverage)
    for place, row in enumerate(predictions):
        below, above = naive(calibration, row, coverage)
        assert (low[place], high[place]) == (-below, above)


def test_copies_of_a_source_count_once() -> None:
    errors, folds = np.arange(12.0), np.arange(12) % 3
    once = Calibration(folds, errors, np.ones(12))
    twice = Calibration(np.repeat(folds, 3), np.repeat(errors, 3), np.full(36, 1 / 3))
    predictions = np.zeros((1, 3))
    assert once.interval(predictions, coverage=0.8) == twice.interval(predictions, coverage=0.8)


def test_a_share_of_all_or_none_is_refused() -> None:
    with pytest.raises(ModelError, match="coverage"):
        Calibration(np.zeros(3, int), np.ones(3), np.ones(3)).interval(
            np.zeros((1, 1)), coverage=1.0
        )


@pytest.mark.parametrize("each", [1, 3])
def test_new_networks_lie_in_their_intervals_as_often_as_promised(each: int) -> None:
    inside = []
    for seed in range(8):
        everything = table(seed, 45 * each + 300, each=each)
        fitted = range(45 * each)
        part = type(everything)(
            *(a[: len(fitted)] for a in (everything.features, everything.values, everything.groups))
        )
        ranking = fit_ranking(part, model="ridge", coverage=0.8)
        said = ranking.predict(everything.features[len(fitted) :])
        truth = everything.values[len(fitted) :]
        inside.append(np.mean((said.low <= truth) & (truth <= said.high)))
    assert 0.75 < float(np.mean(inside)) < 0.9


def test_weights_sum_to_one_for_each_source() -> None:
    weights = source_weights(np.array([0, 1, 1, 1, 2]))
    assert np.bincount([0, 1, 1, 1, 2], weights).tolist() == pytest.approx([1, 1, 1])
