"""A checkpoint file for each network, with a table of labels beside them."""

from __future__ import annotations

import io
from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import safetensors.torch
import torch
from torch import Tensor

from weightspace.errors import FileError
from weightspace.zoo.exporting.format import Format, blocks
from weightspace.zoo.exporting.labels import labels_csv
from weightspace.zoo.store import Zoo
from weightspace.zoo.store_files import write_file

LABELS = "labels.csv"
FOLDER = "networks"


class Files(Format):
    """A file a network, ``networks/000012.pt``, and ``labels.csv`` with the rows.

    ``weightspace zoo import DIR --labels DIR/labels.csv`` reads it back.
    """

    suffix: ClassVar[str]

    def steps(self, zoo: Zoo) -> int:
        """Blocks of networks, and the labels."""
        return len(blocks(zoo)) + 1

    def write(self, zoo: Zoo, folder: Path, step: int) -> int:
        """Write a block of networks; the labels last."""
        found = blocks(zoo)
        if step == len(found):
            names = [self.file(network, len(zoo)) for network in range(len(zoo))]
            write_file(folder / LABELS, labels_csv(zoo, file=names))
            return 0
        (folder / FOLDER).mkdir(exist_ok=True)
        for _, places, states in zoo.groups(found[step]):
            for row, place in enumerate(places.tolist()):
                state = {name: tensor[row].clone() for name, tensor in states.items()}
                path = folder / self.file(found[step][place], len(zoo))
                write_file(path, self.content(state, path))
        return len(found[step])

    def file(self, network: int, count: int) -> str:
        """The name of a network's file."""
        return f"{FOLDER}/{network:0{max(6, len(str(count)))}d}{self.suffix}"

    @abstractmethod
    def content(self, state: dict[str, Tensor], path: Path) -> bytes:
        """A network as the contents of a file."""


class Safetensors(Files):
    """A safetensors file for each network."""

    name = "safetensors"
    summary = "a safetensors file a network, and labels.csv"
    suffix = ".safetensors"

    def content(self, state: dict[str, Tensor], path: Path) -> bytes:
        """The file's bytes."""
        return safetensors.torch.save(state, metadata={"format": "pt"})


class Torch(Files):
    """A file of ``torch.save`` for each network."""

    name = "torch"
    summary = "a file of torch.save a network, and labels.csv"
    suffix = ".pt"

    def content(self, state: dict[str, Tensor], path: Path) -> bytes:
        """The file's bytes."""
        buffer = io.BytesIO()
        torch.save(state, buffer)
        return buffer.getvalue()


class Npz(Files):
    """A file of ``numpy.savez`` for each network."""

    name = "npz"
    summary = "a file of numpy.savez a network, and labels.csv"
    suffix = ".npz"

    def content(self, state: dict[str, Tensor], path: Path) -> bytes:
        """The file's bytes."""
        arrays = {name: as_array(tensor, f"{path}, {name}") for name, tensor in state.items()}
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]
        return buffer.getvalue()


def as_array(tensor: Tensor, subject: str) -> npt.NDArray[Any]:
    """A tensor as an array of numpy.

    Raises:
        FileError: numpy has no such type.
    """
    try:
        return tensor.numpy()
    except TypeError as error:
        raise FileError(
            subject,
            expected="a type that numpy has",
            found=str(tensor.dtype).removeprefix("torch."),
            hint="Export as safetensors.",
        ) from error
