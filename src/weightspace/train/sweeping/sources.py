"""Graphs of a sweep by name or from files."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from weightspace.errors import FileError, GraphError
from weightspace.relational import RelationalGraph, published_grid, sample_plane

Array = npt.NDArray[Any]

PUBLISHED = {"published-52": "n64-52", "published-48": "n16-48", "published-3942": "n64-3942"}
PLANE_NODES = 64

_SOURCES = (
    f"{', '.join(PUBLISHED)}, plane:N, plane:N:NODES, or a file with adjacency matrices "
    "(.npz, .txt or .csv)"
)


def read_graphs(source: str) -> list[RelationalGraph]:
    """Read graphs by a name or from a file.

    Args:
        source: ``published-52``, ``published-48`` or ``published-3942``; ``plane:N`` or
            ``plane:N:NODES`` for N graphs spread evenly over clustering and path length; or a
            file: an ``.npz`` archive of adjacency matrices (``FILE:NAME`` for one of them,
            directed ones are made symmetric) or a matrix of numbers as text.

    Raises:
        GraphError: there is no such set, or a matrix is no connected graph.
        FileError: the file cannot be read.

    >>> len(read_graphs("plane:3:16"))
    3
    """
    if source in PUBLISHED:
        return published_grid(PUBLISHED[source])
    if source.startswith("plane:"):
        return _plane(source)
    path, _, name = source.partition(":")
    file = Path(path)
    if file.suffix == ".npz":
        return _archive(file, name)
    if file.suffix in {".txt", ".csv"}:
        return [_graph(_text(file), file.stem, file)]
    raise GraphError("graphs", expected=_SOURCES, found=repr(source))


def _plane(source: str) -> list[RelationalGraph]:
    numbers = source.split(":")[1:]
    if not all(number.isdecimal() and len(number) < 9 for number in numbers) or len(numbers) > 2:
        raise GraphError(
            "graphs", expected="plane:N or plane:N:NODES, such as plane:52:16", found=repr(source)
        )
    count, nodes = [*map(int, numbers), PLANE_NODES][:2]
    return sample_plane(nodes, count)


def _archive(file: Path, name: str) -> list[RelationalGraph]:
    try:
        with np.load(file, allow_pickle=False) as archive:
            names = [name] if name else archive.files
            missing = [key for key in names if key not in archive.files]
            if missing or not names:
                raise FileError(
                    file,
                    expected=f"a matrix {name}" if name else "adjacency matrices",
                    found=", ".join(archive.files)[:200] or "an empty archive",
                )
            matrices = {key: archive[key] for key in names}
    except FileError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise _unreadable(file, error) from error
    graphs = []
    for key, matrix in matrices.items():
        if matrix.ndim == 3:
            graphs += [_graph(own, f"{key}[{i}]", file) for i, own in enumerate(matrix)]
        else:
            graphs.append(_graph(matrix, key, file))
    return graphs


def _text(file: Path) -> Array:
    try:
        matrix: Array = np.loadtxt(file, ndmin=2, delimiter="," if file.suffix == ".csv" else None)
    except (OSError, ValueError) as error:
        raise _unreadable(file, error) from error
    return matrix


def _graph(matrix: Array, name: str, file: Path) -> RelationalGraph:
    if matrix.dtype.kind not in "biuf" or matrix.ndim != 2:
        raise FileError(
            f"{file}, {name}",
            expected="a square matrix of numbers",
            found=f"{matrix.dtype} of shape {matrix.shape}",
        )
    return RelationalGraph.symmetrised(matrix, name=name)


def _unreadable(file: Path, error: Exception) -> FileError:
    found = "nothing" if not file.exists() else (str(error).splitlines() or [""])[0][:200]
    return FileError(file, expected="adjacency matrices of numbers", found=found)
