"""Successive halving: more epochs only for the better graphs of a rung."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weightspace.errors import require_between


def rungs(epochs: int, factor: int) -> tuple[int, ...]:
    """The epochs at which graphs are compared; the last is the end of training.

    Jamieson and Talwalkar, *Non-stochastic Best Arm Identification* (2016). All are parts of one
    whole training, so a graph's error at a rung is that of a run that was never stopped.

    Args:
        epochs: of a whole training.
        factor: one in so many graphs goes on, with so many times the epochs.

    Raises:
        ModelError: the factor is below 2.

    >>> rungs(9, 3)
    (1, 3, 9)
    """
    require_between("halving factor", factor, 2, 100)
    found = [epochs]
    while (fewer := round(found[0] / factor)) >= 1 and fewer < found[0]:
        found.insert(0, fewer)
    return tuple(found)


def survivors(errors: Mapping[str, float], factor: int) -> set[str]:
    """The graphs of the lowest errors: one in so many, at least one.

    Args:
        errors: of each graph, on validation images; NaN loses.
        factor: one in so many goes on.

    >>> sorted(survivors({"a": 3.0, "b": 1.0, "c": 2.0, "d": 4.0}, 2))
    ['b', 'c']
    """
    worst = np.nan_to_num(np.array([*errors.values()]), nan=np.inf)
    names = [name for _, name in sorted(zip(worst.tolist(), errors, strict=True))]
    return set(names[: max(1, round(len(names) / factor))])
