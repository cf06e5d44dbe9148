from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from weightspace.errors import DataError
from weightspace.zoo import crossing_groups, split_by_group

THIRDS = {"train": 0.5, "val": 0.25, "test": 0.25}


@settings(deadline=None)
@given(st.lists(st.integers(0, 30), min_size=60, max_size=200), st.integers(0, 5))
def test_every_network_once_and_no_group_twice(groups, seed):
    try:
        splits = split_by_group(groups, THIRDS, seed)
    except DataError:
        assert len(set(groups)) < 30  # only where a huge group swallows a split
        return
    together = np.concatenate(list(splits.values()))
    assert sorted(together.tolist()) == list(range(len(groups)))
    sets = [{groups[i] for i in networks} for networks in splits.values()]
    assert sum(map(len, sets)) == len(set(groups))
    assert all((np.diff(networks) > 0).all() for networks in splits.values())


@pytest.mark.parametrize("count", [4, 12, 60, 400])
def test_shares_are_exact_where_groups_allow(count):
    groups = [i // 3 for i in range(3 * count)]
    splits = split_by_group(groups, THIRDS, 7)
    assert {k: len(v) // 3 for k, v in splits.items()} == {
        "train": count // 2,
        "val": count // 4,
        "test": count // 4,
    }


def test_decimal_shares_meet_their_bounds():
    fractions = {"train": 0.7, "val": 0.1, "test": 0.2}
    for count in (10, 30, 70, 110, 1000, 60_000):
        sizes = [len(v) for v in split_by_group(range(count), fractions, 0).values()]
        assert sizes == [count * 7 // 10, count // 10, count // 5]


def test_groups_of_unequal_size_keep_the_shares():
    generator = np.random.default_rng(0)
    groups = np.repeat(np.arange(500), generator.integers(1, 20, 500))
    splits = split_by_group(groups, THIRDS, 0)
    for name, share in THIRDS.items():
        assert len(splits[name]) / len(groups) == pytest.approx(share, abs=0.01)


def test_labels_are_balanced():
    labels = [i % 10 for i in range(1000) for _ in range(2)]
    groups = [i for i in range(1000) for _ in range(2)]
    for networks in split_by_group(groups, {"a": 0.8, "b": 0.2}, 3, labels=labels).values():
        counts = np.bincount([labels[i] for i in networks])
        assert counts.tolist() == [len(networks) // 10] * 10


def test_few_groups_of_each_label_still_fill_every_split():
    """Rounding within each label alone would leave small splits empty."""
    labels = [i // 5 for i in range(500)]
    splits = split_by_group(range(500), {"a": 0.8, "b": 0.1, "c": 0.1}, 0, labels=labels)
    assert [len(v) for v in splits.values()] == [400, 50, 50]


def test_the_seed_decides():
    first, again, other = (
        split_by_group(range(100), THIRDS, seed)["test"].tolist() for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_hashes_do_not_decide():
    """Texts hash differently in every process; the splits must not."""
    code = (
        "from weightspace.zoo import split_by_group\n"
        "groups = [f'image {i // 2}' for i in range(40)]\n"
        "labels = ['ab'[i // 20] for i in range(40)]\n"
        "splits = split_by_group(groups, {'x': 0.5, 'y': 0.5}, 0, labels=labels)\n"
        "found = {name: networks.tolist() for name, networks in splits.items()}\n"
    )
    here: dict[str, object] = {}
    exec(code, here)
    command = [sys.executable, "-c", code + "print(found)"]
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(here["found"])


def test_arrays_and_tensors_are_values():
    plain = split_by_group([0, 0, 1, 1, 2, 2, 3, 3], THIRDS, 0)
    wanted = {name: networks.tolist() for name, networks in plain.items()}
    for groups in (np.arange(8) // 2, torch.arange(8) // 2):
        found = split_by_group(groups, THIRDS, 0)
        assert {name: networks.tolist() for name, networks in found.items()} == wanted


@pytest.mark.parametrize(
    ("groups", "fractions", "labels", "message"),
    [
        ([0, 1], {"a": 0.5, "b": 0.6}, None, "sum to 1"),
        ([0, 1], {"a": 1.5, "b": -0.5}, None, "sum to 1"),
        ([0, 1], {}, None, "sum to 1"),
        ([0, 1], {"a": float("nan")}, None, "sum to 1"),
        ([], {"a": 1.0}, None, "at least one network"),
        ([0, None], {"a": 1.0}, None, "none for network 1"),
        ([float("nan")], {"a": 1.0}, None, "none for network 0"),
        ([0, 0], {"a": 0.5, "b": 0.5}, None, "1 groups, too few"),
        ([0, 0], {"a": 1.0}, [1, 2], r"group 0: expected one label.*\[1, 2\]"),
        ([0, 0], {"a": 1.0}, [1], "expected 2, one a network, found 1"),
    ],
)
def test_what_cannot_be_split(groups, fractions, labels, message):
    with pytest.raises(DataError, match=message):
        split_by_group(groups, fractions, 0, labels=labels)


def test_an_empty_share_may_stay_empty():
    assert split_by_group([0, 1], {"a": 1.0, "b": 0.0}, 0)["b"].tolist() == []


def test_crossing_groups():
    assert crossing_groups(["b", "a", None, "b", "a"], ["x", "x", "y", "y", None]) == ["b"]
