"""Archives of ``numpy.savez``."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import torch
from numpy.lib import format as npy
from torch import Tensor

from weightspace.errors import FileError
from weightspace.importers.files.archive import open_archive
from weightspace.importers.files.contents import Checkpoint
from weightspace.importers.files.guard import reading


def read_npz(path: Path) -> Checkpoint:
    """Read an archive of arrays; arrays of strings go to the config as lists.

    Raises:
        FileError: an array is of Python objects, of a type without a counterpart in torch, or
            declares another size than it has.
    """
    tensors: dict[str, Tensor] = {}
    config: dict[str, Any] = {}
    with open_archive(path, path) as archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            subject = f"{path}, array {name!r}"
            with reading(subject, "an array of numpy"), archive.open(member) as file:
                array = _read_array(file, member, subject)
            if array.dtype.kind in "US":
                text = np.char.decode(array) if array.dtype.kind == "S" else array
                config[name] = text.tolist()
            else:
                tensors[name] = array_to_tensor(array, subject)
    if not tensors:
        raise FileError(path, expected="tensors of a network", found="only text")
    return Checkpoint(path, "npz", tensors, config=config)


def array_to_tensor(array: np.ndarray[Any, Any], subject: object) -> Tensor:
    """A tensor with an array's values, in the machine's byte order.

    Raises:
        FileError: torch has no such type.
    """
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    try:
        return torch.from_numpy(native if native.flags.writeable else native.copy())
    except TypeError as error:
        raise FileError(
            subject, expected="numbers of a type that torch has", found=f"type {array.dtype}"
        ) from error


def _read_array(file: IO[bytes], member: zipfile.ZipInfo, subject: object) -> np.ndarray[Any, Any]:
    """Read one array, after checking that its header agrees with its bytes."""
    version = npy.read_magic(cast(Any, file))
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    if version not in readers:
        raise FileError(subject, expected="numpy format 1.0 or 2.0", found=f"{version}")
    shape, fortran, dtype = readers[version](cast(Any, file))
    if dtype.hasobject:
        raise FileError(
            subject,
            expected="numbers",
            found="Python objects, which only unpickling could read",
            hint="It was refused before anything in it ran. Save it without objects.",
        )
    nbytes, held = math.prod(shape) * dtype.itemsize, member.file_size - file.tell()
    if nbytes != held:
        raise FileError(
            subject,
            expected=f"{nbytes} bytes for shape {shape}",
            found=f"{held}",
            hint="The file is damaged or made to deceive.",
        )
    values = np.frombuffer(read_bytes(file, nbytes), dtype=dtype)
    return values.reshape(shape[::-1]).T if fortran else values.reshape(shape)


def read_bytes(file: IO[bytes], count: int) -> bytearray:
    """Read into one buffer, part by part, so that no second copy is held."""
    buffer = bytearray(count)
    view, done = memoryview(buffer), 0
    while done < count and (part := file.read(min(count - done, 1 << 24))):
        view[done : done + len(part)] = part
        done += len(part)
    if done < count:
        raise EOFError(f"{done} of {count} bytes")
    return buffer
