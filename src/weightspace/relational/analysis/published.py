"""The published results of You et al. (2020), as one archive of arrays."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from weightspace.errors import FileError
from weightspace.relational.analysis.runs import EpochRuns, NetworkRuns

Array = npt.NDArray[Any]

NETWORKS = {
    "mlp": ("mlp_cifar10", "graphs_n64_3942"),
    "cnn6": ("cnn6_imagenet", "graphs_n64_52"),
    "resnet34": ("resnet34_imagenet", "graphs_n64_52"),
    "resnet34_sep": ("resnet34_sep_imagenet", "graphs_n64_52"),
    "resnet50": ("resnet50_imagenet", "graphs_n64_52"),
    "efficientnet": ("efficientnet_imagenet", "graphs_n16_48"),
}
"""The published networks: where their arrays are, and over which graphs."""

_DIGITS = 4  # the errors are shares of 10,000 or 50,000 images, stored as 32-bit numbers


def read_published(path: Path) -> list[NetworkRuns]:
    """Read the archive.

    Errors are rounded to four digits: they are exact shares of a test set, and graphs with
    equal errors must not differ by what 32-bit numbers lose.

    Raises:
        FileError: it is missing, no archive, or lacks an array.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        missing = "nothing" if not path.exists() else ""
        raise FileError(
            path,
            expected="the published arrays (.npz)",
            found=missing or (str(error).splitlines() or [type(error).__name__])[0][:200],
        ) from error
    found = [
        _network(name, prefix, graphs, arrays, path)
        for name, (prefix, graphs) in NETWORKS.items()
        if f"{prefix}_top1_error" in arrays
    ]
    if not found:
        raise FileError(
            path,
            expected=f"arrays such as {NETWORKS['mlp'][0]}_top1_error",
            found=", ".join(sorted(arrays))[:200] or "an empty archive",
        )
    return found


def _network(
    name: str, prefix: str, graphs: str, arrays: Mapping[str, Array], path: Path
) -> NetworkRuns:
    rows = _array(arrays, graphs, 2, path)
    errors = _errors(arrays, f"{prefix}_top1_error", 2, path)
    complete = np.empty(0)
    if f"{prefix}_complete_top1_error" in arrays:
        complete = _errors(arrays, f"{prefix}_complete_top1_error", 1, path)
    by_epoch = None
    if f"{prefix}_top1_error_by_epoch" in arrays:
        history = _errors(arrays, f"{prefix}_top1_error_by_epoch", 3, path)
        by_epoch = EpochRuns(tuple(range(len(history))), history)
    if rows.shape[1] != 6 or len(rows) != len(errors):
        raise FileError(
            f"{path}, {prefix}",
            expected=f"six columns and a row of errors for every graph of {graphs}",
            found=f"shapes {rows.shape} and {errors.shape}",
        )
    nodes, density = rows[:, 0], rows[:, 1]
    names = tuple(
        f"ws-flex({n:.0f}, {n * round(k, 6):.6g}, {round(p, 6):.6g}, seed {seed:.0f})"
        for n, k, p, seed in rows[:, :4].tolist()
    )
    return NetworkRuns(name, names, rows[:, 4:], nodes * density, nodes, errors, complete, by_epoch)


def _errors(
    arrays: Mapping[str, Array], name: str, dimensions: int, path: Path
) -> Float[Array, "*shape"]:
    return np.round(_array(arrays, name, dimensions, path), _DIGITS)


def _array(arrays: Mapping[str, Array], name: str, dimensions: int, path: Path) -> Array:
    if (
        name not in arrays
        or arrays[name].ndim != dimensions
        or arrays[name].dtype.kind not in "fiu"
    ):
        found = f"{arrays[name].dtype} {arrays[name].shape}" if name in arrays else "none"
        raise FileError(
            f"{path}, {name}", expected=f"numbers in {dimensions} dimensions", found=found
        )
    return arrays[name].astype(np.float64)
