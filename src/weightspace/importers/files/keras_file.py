"""HDF5 files of Keras: whole models and weights alone."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from torch import Tensor

from weightspace.errors import FileError
from weightspace.importers.files.archive import EXPANSION, FREE_BYTES
from weightspace.importers.files.contents import Checkpoint
from weightspace.importers.files.guard import reading
from weightspace.importers.files.npz_file import array_to_tensor, read_bytes

CHILD = Path(__file__).with_name("hdf5_child.py")
SECONDS = 10
"""The processor time that reading may take, and as much again for every 200 MB."""


def read_keras(path: Path) -> Checkpoint:
    """Read a Keras file; the optimiser's variables are apart, the model's JSON is the config.

    Names are those of the variables, such as ``dense_1/kernel:0``, in the order of the layers.
    The HDF5 library runs in a process of its own, as it loops or crashes on some damaged files.

    Raises:
        FileError: it is damaged, refers to other files, or declares more than it holds; or
            h5py is not installed.
    """
    if importlib.util.find_spec("h5py") is None:
        raise FileError(
            path,
            expected="h5py to be installed, for HDF5 files",
            found="that it is not",
            hint="Install it with: pip install 'weightspace[keras]'",
        )
    groups: dict[str, dict[str, Tensor]] = {"": {}}
    with tempfile.TemporaryFile() as file:
        _run_child(path, file)
        with reading(path, "an HDF5 file of Keras"):
            file.seek(0)
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            if "refused" in header:
                expected, found = header["refused"]
                raise FileError(path, expected=expected, found=found)
            for group, name, dtype, shape in header["variables"]:
                groups.setdefault(group, {})[name] = _read_variable(path, file, name, dtype, shape)
    tensors = groups.pop("")
    if not tensors:
        raise FileError(path, expected="a network's variables", found="none")
    return Checkpoint(path, "keras", tensors, groups, header["config"])


def _run_child(path: Path, output: IO[bytes]) -> None:
    """Run the reading process."""
    size = path.stat().st_size
    budget = max(FREE_BYTES, EXPANSION * size)
    seconds = SECONDS * (1 + size // (200 << 20))
    command = [sys.executable, "-I", str(CHILD), str(path), str(budget), str(seconds)]
    try:
        result = subprocess.run(
            command, stdout=output, stderr=subprocess.PIPE, timeout=10 * seconds, check=False
        )
        reason = result.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        failed = result.returncode != 0
    except subprocess.TimeoutExpired:
        reason, failed = "it took too long", True
    if failed:
        raise FileError(
            path,
            expected="an HDF5 file of Keras",
            found=f"one that could not be read ({reason or 'the HDF5 library gave up'})",
            hint="It may be damaged or cut short: copy or download it again.",
        )


def _read_variable(path: Path, file: IO[bytes], name: str, dtype: str, shape: list[int]) -> Tensor:
    count: Any = np.prod(shape, dtype=np.int64)
    values = np.frombuffer(read_bytes(file, int(count) * np.dtype(dtype).itemsize), dtype)
    return array_to_tensor(values.reshape(shape), f"{path}, variable {name!r}")
