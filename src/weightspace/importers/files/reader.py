"""Reading any checkpoint file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from weightspace.errors import FileError
from weightspace.importers.files.contents import Checkpoint
from weightspace.importers.files.guard import reading
from weightspace.importers.files.hub import local_path
from weightspace.importers.files.keras_file import read_keras
from weightspace.importers.files.magic import Kind, kind_of
from weightspace.importers.files.npz_file import read_npz
from weightspace.importers.files.safetensors_file import read_safetensors
from weightspace.importers.files.sb3_file import read_sb3
from weightspace.importers.files.shards import read_index
from weightspace.importers.files.torch_file import read_legacy_torch, read_torch

READERS: dict[Kind, Callable[[Path], Checkpoint]] = {
    "torch": read_torch,
    "torch-legacy": read_legacy_torch,
    "safetensors": read_safetensors,
    "npz": read_npz,
    "keras": read_keras,
    "sb3": read_sb3,
    "index": read_index,
}


def read_states(path: str | os.PathLike[str]) -> Checkpoint:
    """Read the tensors of a checkpoint file, whatever wrote it, without executing anything.

    The format is told by the content, not by the name: ``torch.save`` (zip and legacy),
    safetensors, ``numpy.savez``, Keras HDF5, Stable-Baselines3 agents, and indexes of shards.
    Pickles are read as data first and refused if they would do anything but make tensors;
    declared sizes are checked against the file before memory is taken. Tensors of large files
    are mapped: do not change the file while they are in use.

    Args:
        path: the file, or its place on the Hugging Face hub, see
            :func:`weightspace.importers.files.hub.local_path`.

    Returns:
        The main network's tensors, other groups of tensors, and plain values.

    Raises:
        FileError: the file is missing, damaged, unsafe, or of a kind that is not read here.

    >>> import tempfile, torch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     torch.save({"epoch": 3, "model": {"0.bias": torch.zeros(2)}}, folder + "/a.pt")
    ...     checkpoint = read_states(folder + "/a.pt")
    >>> checkpoint.format, checkpoint.tensors, checkpoint.config
    ('torch', {'0.bias': tensor([0., 0.])}, {'epoch': 3})
    """
    path = local_path(path)
    _check_exists(path)
    with reading(path, "a checkpoint"):
        return READERS[kind_of(path)](path)


def _check_exists(path: Path) -> None:
    if path.is_dir():
        inside = sorted(item.name for item in path.glob("*.index.json"))
        raise FileError(
            path,
            expected="a checkpoint file",
            found="a folder",
            hint=f"Give a file in it, such as {inside[0]}." if inside else "Give a file in it.",
        )
    if not path.exists():
        raise FileError(path, expected="a checkpoint file", found="no such file")
    if not path.is_file():
        raise FileError(path, expected="a regular file", found="a device, pipe or socket")
    if not os.access(path, os.R_OK):
        raise FileError(path, expected="a file that may be read", found="no permission")
