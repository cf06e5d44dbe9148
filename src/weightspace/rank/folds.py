"""Folds of cross-validation that keep the networks of one source together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from weightspace.errors import DataError

Integers = npt.NDArray[np.int64]
LEAST_SOURCES = 6
"""Below this nothing can be cross-validated in a sensible way."""
SMALL = 150
"""With fewer sources there are more folds, and the division is repeated."""


def group_numbers(sources: Sequence[Any]) -> Integers:
    """Number the sources: networks of one source get one number.

    A network without a source (None, or an empty text) is a source of its own.

    >>> group_numbers(["a", "b", "a", None, None]).tolist()
    [0, 1, 0, 2, 3]
    """
    numbers: dict[Any, int] = {}
    found = []
    for place, source in enumerate(sources):
        alone = source is None or source == "" or source != source  # noqa: PLR0124 (NaN)
        key = ("network", place) if alone else ("source", source)
        found.append(numbers.setdefault(key, len(numbers)))
    return np.array(found, dtype=np.int64)


def fold_count(sources: int) -> int:
    """How many folds there are: ten for few sources, five for many.

    Raises:
        DataError: there are too few sources to set any aside.
    """
    if sources < LEAST_SOURCES:
        raise DataError(
            "labelled networks",
            expected=f"networks of at least {LEAST_SOURCES} sources",
            found=f"{sources}",
            hint="Networks of one source (checkpoints of a run, refits of an image) count once. "
            "Label more of them.",
        )
    return min(10, sources) if sources < SMALL else 5


def grouped_folds(groups: Integers, *, folds: int, seed: int) -> Integers:
    """Give every network a fold at random, the same for all networks of a source.

    Args:
        groups: the source of each network, by number.
        folds: how many there are.
        seed: of the division.

    >>> fold = grouped_folds(np.array([0, 0, 1, 2]), folds=3, seed=0)
    >>> bool(fold[0] == fold[1]), len(set(fold.tolist()))
    (True, 3)
    """
    from sklearn.model_selection import GroupKFold  # noqa: PLC0415 (slow to import)

    # GroupKFold is deterministic: sources of equal size go to folds in the order of their numbers.
    shuffled = np.random.default_rng(seed).permutation(int(groups.max()) + 1)[groups]
    found = np.empty(len(groups), dtype=np.int64)
    for number, (_, held) in enumerate(GroupKFold(folds).split(groups, groups=shuffled)):
        found[held] = number
    return found


def source_weights(groups: Integers) -> npt.NDArray[np.float64]:
    """Weights of networks that sum to one for each source.

    >>> source_weights(np.array([0, 0, 1])).tolist()
    [0.5, 0.5, 1.0]
    """
    return np.asarray(1.0 / np.bincount(groups)[groups], dtype=np.float64)
