"""Following dimensions through a reshape."""

from __future__ import annotations

import math
from collections.abc import Sequence

from weightspace.importers.atoms import Dim, pin, place, regroup, size_of


def reshape(dims: Sequence[Dim], shape: Sequence[int]) -> tuple[Dim, ...]:
    """Follow a tensor's dimensions through a reshape.

    Dimensions are matched in the smallest groups of equal extent; a group whose atoms cannot
    be regrouped is pinned.
    """
    if 0 in shape:
        # Nothing is there to be moved.
        return tuple(place(size, "empty") for size in shape)
    result: list[Dim] = []
    for old, new in paired_runs([size_of(dim) for dim in dims], shape):
        kept = [dims[i] for i in old]
        sizes = [shape[i] for i in new]
        if [size_of(dim) for dim in kept] == sizes:
            result.extend(kept)
            continue
        whole = tuple(atom for dim in kept for atom in dim)
        parts = regroup(whole, sizes)
        if parts is None:
            pin(whole, "a reshape that cuts across neurons")
            parts = [place(size, "a reshape that cuts across neurons") for size in sizes]
        elif math.prod(sizes) == 1:
            units = [atom for atom in whole if atom.size == 1]
            parts = [tuple(units[:1])] + [()] * (len(sizes) - 1) if sizes else []
        result.extend(parts)
    return tuple(result)


def paired_runs(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Pair up runs of old and new dimensions of equal extent, as short as possible."""
    result: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        left, right = [], []
        a = b = 1
        if i < len(old) and (j >= len(new) or old[i] != 1 or new[j] == 1):
            left.append(i)
            a *= old[i]
            i += 1
        if j < len(new) and (not left or new[j] != 1 or a == 1):
            right.append(j)
            b *= new[j]
            j += 1
        while a != b:
            if a < b:
                left.append(i)
                a *= old[i]
                i += 1
            else:
                right.append(j)
                b *= new[j]
                j += 1
        result.append((left, right))
    return result
