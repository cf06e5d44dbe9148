"""Ranges of a batch that fit the processor's cache."""

from __future__ import annotations

CACHED_VALUES = 1 << 19
"""Values of one buffer: two megabytes. Smaller pieces stay in a core's own cache, but the start of
each operation costs more than that saves; much larger ones fall out of every cache."""


def cached_parts(batch: int, values: int, limit: int = CACHED_VALUES) -> list[slice]:
    """Cut a batch into ranges of at most ``limit`` values, at least one network each.

    Args:
        batch: how many networks there are; at least one.
        values: how many values each has.
        limit: the most values of a range.

    >>> cached_parts(5, 10, limit=20)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, min(batch, limit // max(values, 1)))
    return [slice(start, min(start + step, batch)) for start in range(0, batch, step)]
