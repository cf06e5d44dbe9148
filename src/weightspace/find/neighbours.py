"""The nearest of many vectors: exactly, or by a graph of neighbours on disk."""

from __future__ import annotations

import hashlib
import importlib.util
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from weightspace.zoo.store_files import write_file

Found = tuple[Int[np.ndarray, " found"], Float[np.ndarray, " found"]]

_DIGEST = 32
MANY = 5000
"""Vectors from which on an approximate index pays, if there is one."""


class Neighbours(ABC):
    """Finds the nearest of a set of vectors, each with a number."""

    @abstractmethod
    def nearest(self, vector: Float[np.ndarray, " channels"], count: int) -> Found:
        """The numbers of the nearest vectors and their distances, nearest first."""


class ExactNeighbours(Neighbours):
    """Computes every distance.

    >>> found = ExactNeighbours(np.array([7, 8]), np.eye(2)).nearest(np.array([0.0, 1.0]), 1)
    >>> int(found[0][0]), float(found[1][0])
    (8, 0.0)
    """

    def __init__(
        self, numbers: Int[np.ndarray, " n"], vectors: Float[np.ndarray, "n channels"]
    ) -> None:
        self._numbers, self._vectors = numbers, vectors

    def nearest(self, vector: Float[np.ndarray, " channels"], count: int) -> Found:
        """See :class:`Neighbours`."""
        gaps = np.linalg.norm(self._vectors.astype(np.float64) - vector, axis=1)
        order = np.argsort(gaps, kind="stable")[:count]
        return self._numbers[order], gaps[order]


class GraphNeighbours(Neighbours):
    """Walks a graph of neighbours (Malkov and Yashunin 2018) that is kept in a file.

    Vectors that are new are added to it and those that are gone are taken out; a file that is
    missing or does not fit is made anew. Needs the extra ``find`` (usearch).

    Args:
        path: the file.
        numbers: of the vectors; a number stands for one vector for ever.
        vectors: the vectors.
    """

    def __init__(
        self,
        path: Path,
        numbers: Int[np.ndarray, " n"],
        vectors: Float[np.ndarray, "n channels"],
    ) -> None:
        self._index = _load(path, vectors.shape[1])
        there = {int(key) for key in np.asarray(self._index.keys)}
        wanted = {int(number): place for place, number in enumerate(numbers)}
        gone, new = sorted(there - set(wanted)), sorted(set(wanted) - there)
        if gone:
            self._index.remove(np.array(gone, dtype=np.uint64))
        if new:
            rows = vectors[[wanted[number] for number in new]].astype(np.float32)
            self._index.add(np.array(new, dtype=np.uint64), rows)
        if gone or new:
            content = bytes(self._index.save())
            write_file(path, content + hashlib.sha256(content).digest())

    def nearest(self, vector: Float[np.ndarray, " channels"], count: int) -> Found:
        """See :class:`Neighbours`."""
        found = self._index.search(vector.astype(np.float32), count)
        gaps = np.sqrt(np.maximum(np.asarray(found.distances, dtype=np.float64), 0))
        return np.asarray(found.keys).astype(np.int64), gaps


def _load(path: Path, channels: int) -> Any:
    """The index of a file if it is whole and of this length of vectors, or an empty one."""
    from usearch.index import Index  # noqa: PLC0415 (an extra)

    index = Index(ndim=channels, metric="l2sq", dtype="f32")
    try:
        content = path.read_bytes()
    except OSError:
        return index
    body, digest = content[:-_DIGEST], content[-_DIGEST:]
    if hashlib.sha256(body).digest() != digest:
        return index  # It is C++ code that reads it: never what was cut off.
    index.load(body)
    fits = index.ndim == channels
    return index if fits else Index(ndim=channels, metric="l2sq", dtype="f32")


def make_neighbours(
    path: Path | None,
    numbers: Int[np.ndarray, " n"],
    vectors: Float[np.ndarray, "n channels"],
) -> Neighbours:
    """The exact search for few vectors, or where the extra ``find`` is not installed.

    Args:
        path: where a graph of neighbours may be kept, or None.
        numbers: of the vectors.
        vectors: the vectors.
    """
    few = len(numbers) < MANY or path is None
    if few or importlib.util.find_spec("usearch") is None:
        return ExactNeighbours(numbers, vectors)
    assert path is not None
    return GraphNeighbours(path, numbers, vectors)
