"""Wiring of brains: directed graphs, their measures, and the relational graphs they become."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Bool

from weightspace.errors import FileError, GraphError
from weightspace.relational.graph import RelationalGraph
from weightspace.relational.plane import distances

Array = npt.NDArray[Any]


def read_connectome(path: Path, name: str = "") -> Bool[Array, "n n"]:
    """Read who is wired to whom: row i, column j for an arc from i to j, none to itself.

    Args:
        path: text with a matrix of numbers, or an ``.npz`` archive of matrices.
        name: of the matrix in an archive.

    Raises:
        FileError: the file cannot be read, or holds no square matrix of this name.
    """
    weights = _from_archive(path, name) if path.suffix == ".npz" else _from_text(path)
    if (
        weights.ndim != 2
        or weights.shape[0] != weights.shape[1]
        or weights.dtype.kind not in "biuf"
    ):
        raise FileError(
            f"{path} {name}".strip(),
            expected="a square matrix of numbers",
            found=f"shape {weights.shape} of {weights.dtype}",
        )
    arcs: Array = weights != 0
    np.fill_diagonal(arcs, val=False)
    return arcs


def connectome(path: Path, name: str = "") -> RelationalGraph:
    """The relational graph of a connectome: nodes are joined that have an arc either way.

    Raises:
        FileError: see :func:`read_connectome`.
        GraphError: it is in several parts.
    """
    return RelationalGraph.symmetrised(read_connectome(path, name), name=name or path.stem)


def directed_clustering(arcs: Bool[Array, "n n"]) -> float:
    """Mean over nodes of the arcs among a node's neighbours, over all that there could be.

    Neighbours are the union of those that an arc comes from and those that it goes to:
    ``C = arcs among them / (k (k - 1))``, as the published analysis of connectomes has it.
    """
    near = (arcs | arcs.T).astype(np.float64)
    among = np.einsum("ij,jk,ik->i", near, arcs.astype(np.float64), near)
    degrees = near.sum(1)
    return float((among / np.maximum(degrees * (degrees - 1), 1)).mean())


def directed_path_length(arcs: Bool[Array, "n n"]) -> float:
    """Mean length of the shortest paths along arcs, over pairs of nodes that have one.

    Raises:
        GraphError: there is no arc.
    """
    steps = distances(arcs)
    reached = np.isfinite(steps) & (steps > 0)
    if not reached.any():
        raise GraphError("directed graph", expected="at least one arc", found="none")
    return float(steps[reached].mean())


def _from_text(path: Path) -> Array:
    try:
        return np.loadtxt(path, ndmin=2)
    except (OSError, ValueError) as error:
        raise FileError(
            path, expected="a matrix of numbers as text", found=_first_line(error)
        ) from error


def _from_archive(path: Path, name: str) -> Array:
    try:
        with np.load(path, allow_pickle=False) as file:
            if name not in file.files:
                matrices = ", ".join(key for key in file.files if file[key].ndim == 2)
                raise FileError(path, expected=f"one of {matrices}", found=repr(name))
            matrix: Array = file[name]
            return matrix
    except (OSError, ValueError, EOFError, KeyError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(
            path, expected="an archive of matrices (.npz)", found=_first_line(error)
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
