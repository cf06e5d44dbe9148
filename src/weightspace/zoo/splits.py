"""Splits that keep all networks of one source together."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from weightspace.errors import DataError

Array = npt.NDArray[np.int64]
Values = Sequence[Hashable] | npt.NDArray[Any] | Tensor


def split_by_group(
    groups: Values,
    fractions: Mapping[str, float],
    seed: int,
    *,
    labels: Values | None = None,
) -> dict[str, Array]:
    """Divide networks at random so that no group is in two splits.

    Networks of one source (one image fitted several times, one run's checkpoints) are
    nearly copies of each other; one in the training set and one in the test set would let
    a model remember instead of learn. The groups are shuffled and laid side by side on
    the unit interval, each as wide as its share of the networks; a group belongs to the
    split whose range holds its middle. With labels this is done for each label by itself,
    shifted differently, so that each split has each label in proportion.

    Args:
        groups: each network's group.
        fractions: each split's share of the networks; they sum to one.
        seed: of the shuffling.
        labels: each network's label, to be balanced; one label a group.

    Returns:
        For each split its networks, ascending.

    Raises:
        DataError: the fractions do not sum to one, a group is None or has two labels, or
            there are too few groups to fill every split.

    >>> {k: v.tolist() for k, v in split_by_group("aabbcc", {"x": 0.67, "y": 0.33}, 0).items()}
    {'x': [0, 1, 4, 5], 'y': [2, 3]}
    """
    _check_fractions(fractions)
    members = _members(_as_list(groups))
    strata = _strata(members, None if labels is None else _as_list(labels), len(groups))
    generator = np.random.default_rng(seed)
    shifts = (generator.permutation(len(strata)) + 0.5) / len(strata)
    bounds = np.cumsum(list(fractions.values()))[:-1]
    chosen: dict[str, list[int]] = {name: [] for name in fractions}
    names = list(fractions)
    for stratum, shift in zip(strata, shifts, strict=True):
        order = generator.permutation(len(stratum))
        sizes = np.array([len(members[stratum[i]]) for i in order], dtype=np.float64)
        places = (np.cumsum(sizes) - sizes + shift * sizes) / sizes.sum()
        # A middle on a bound belongs above it, also where the sums are inexact.
        split = np.searchsorted(bounds, places + 1e-9, side="right")
        for i, index in zip(order, split, strict=True):
            chosen[names[index]] += members[stratum[i]]
    for name, networks in chosen.items():
        if not networks and fractions[name] > 0:
            raise DataError(
                f"split {name!r}",
                expected=f"a share of {fractions[name]:g} of the networks",
                found=f"{len(members)} groups, too few for it to get one",
                hint="Use more groups, or a larger share.",
            )
    return {name: np.array(sorted(networks), dtype=np.int64) for name, networks in chosen.items()}


def crossing_groups(groups: Sequence[Hashable], splits: Sequence[Hashable]) -> list[Hashable]:
    """The groups that have networks in more than one split.

    Args:
        groups: each network's group; None is no group.
        splits: each network's split; None is no split.

    >>> crossing_groups(["a", "a", "b"], ["train", "test", "test"])
    ['a']
    """
    first: dict[Hashable, Hashable] = {}
    crossing: dict[Hashable, None] = {}
    for group, split in zip(groups, splits, strict=True):
        if group is not None and split is not None and first.setdefault(group, split) != split:
            crossing[group] = None
    return list(crossing)


def _check_fractions(fractions: Mapping[str, float]) -> None:
    values = list(fractions.values())
    if not all(value >= 0 for value in values) or not math.isclose(sum(values), 1, abs_tol=1e-6):
        raise DataError("fractions", expected="shares that sum to 1", found=f"{dict(fractions)}")


def _members(groups: Sequence[Hashable]) -> dict[Hashable, list[int]]:
    """Each group's networks, groups in order of appearance whatever their hashes."""
    members: dict[Hashable, list[int]] = {}
    for index, group in enumerate(groups):
        if group is None or group != group:  # noqa: PLR0124 (NaN alone differs from itself)
            raise DataError(
                "groups", expected="a group for each network", found=f"none for network {index}"
            )
        members.setdefault(group, []).append(index)
    if not members:
        raise DataError("groups", expected="at least one network", found="none")
    return members


def _as_list(values: Values) -> list[Hashable]:
    """Array elements become plain values: tensors hash by identity, not by value."""
    if isinstance(values, np.ndarray | Tensor):
        return list(values.tolist())
    return list(values)


def _strata(
    members: Mapping[Hashable, list[int]], labels: Sequence[Hashable] | None, count: int
) -> list[list[Hashable]]:
    """The groups of each label, or all groups together."""
    if labels is None:
        return [list(members)]
    if len(labels) != count:
        raise DataError("labels", expected=f"{count}, one a network", found=str(len(labels)))
    strata: dict[Hashable, list[Hashable]] = {}
    for group, networks in members.items():
        found = list(dict.fromkeys(labels[network] for network in networks))
        if len(found) != 1:
            raise DataError(
                f"group {group!r}", expected="one label for all its networks", found=str(found)
            )
        strata.setdefault(found[0], []).append(group)
    return list(strata.values())
