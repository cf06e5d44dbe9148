"""Labels and batches."""

from __future__ import annotations

from itertools import chain

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from weightspace.errors import DataError
from weightspace.tasks.batches import EpochSampler, mixed_seed
from weightspace.tasks.classes import Classes


def test_classes_in_natural_order() -> None:
    assert Classes.of([10, 9, 2]).names == ("2", "9", "10")
    assert Classes.of(["cat", "ant"]).names == ("ant", "cat")
    assert Classes.of([1.0, 0.0]).names == ("0", "1")
    assert Classes.of([3, 7]).encode([7, 3, 7]).tolist() == [1, 0, 1]


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_missing_labels(missing: object) -> None:
    with pytest.raises(DataError, match="missing"):
        Classes.of([1, missing, 2])
    with pytest.raises(DataError, match="missing"):
        Classes.of([1, 2]).encode([1, missing])


def test_bad_labels() -> None:
    with pytest.raises(DataError, match="two classes"):
        Classes.of([1, 1])
    with pytest.raises(DataError, match="one of 1, 2"):
        Classes.of([1, 2]).encode([3])


@given(st.integers(1, 50), st.integers(1, 60), st.integers(0, 9))
def test_every_network_once_an_epoch(count: int, size: int, epoch: int) -> None:
    sampler = EpochSampler(count, batch_size=size, seed=1)
    sampler.set_epoch(epoch)
    parts = list(sampler)
    assert sorted(chain.from_iterable(parts)) == list(range(count))
    assert len(parts) == len(sampler)
    assert parts == list(sampler)


def test_epochs_differ_and_unshuffled_stays() -> None:
    sampler = EpochSampler(100, batch_size=10, seed=1)
    first = list(sampler)
    sampler.set_epoch(1)
    assert first != list(sampler)
    assert list(chain.from_iterable(EpochSampler(7, batch_size=3, seed=None))) == list(range(7))


def test_mixed_seeds_make_valid_generators() -> None:
    seeds = {mixed_seed(a, b) for a in range(30) for b in range(30)}
    assert len(seeds) == 900
    for seed in seeds:
        torch.Generator().manual_seed(seed)
