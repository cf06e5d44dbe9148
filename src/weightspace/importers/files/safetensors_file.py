"""Files of the safetensors library."""

from __future__ import annotations

from pathlib import Path

from safetensors import safe_open
from torch import Tensor

from weightspace.errors import FileError
from weightspace.importers.files.contents import Checkpoint
from weightspace.importers.files.guard import check_tensor, reading


def read_safetensors(path: Path) -> Checkpoint:
    """Read a safetensors file, mapped into memory; its metadata is the config."""
    tensors, metadata = load_safetensors(path)
    return Checkpoint(path, "safetensors", tensors, config=metadata)


def load_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a file.

    Raises:
        FileError: the header does not fit the file, or a type of tensor is not supported.
    """
    _check_header(path)
    with reading(path, "a safetensors file"), safe_open(path, framework="pt", device="cpu") as file:
        names = list(file.keys())
        tensors = {name: check_tensor(path, name, file.get_tensor(name)) for name in names}
        metadata = dict(file.metadata() or {})
    if not tensors:
        raise FileError(path, expected="tensors of a network", found="none")
    return tensors, metadata


def _check_header(path: Path) -> None:
    """Check the declared length of the header, the first eight bytes."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
    if length > size - 8:
        raise FileError(
            path,
            expected=f"a header within the file's {size} bytes",
            found=f"a declared header of {length} bytes",
            hint="The file is cut short or damaged: copy or download it again.",
        )
