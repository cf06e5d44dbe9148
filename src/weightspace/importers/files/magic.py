"""The kind of a file, by its first bytes and not by its name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from weightspace.errors import FileError
from weightspace.importers.files.archive import open_archive

Kind = Literal["torch", "torch-legacy", "safetensors", "npz", "keras", "sb3", "index"]

TORCH_MAGIC = b"\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
"""The pickled number that torch.save has begun its legacy files with since 2016."""
FORMATS = "torch (.pt .pth .bin), safetensors, .npz, Keras .h5, Stable-Baselines3 .zip or an index"


def kind_of(path: Path) -> Kind:
    """Find out what kind of checkpoint a file is.

    Raises:
        FileError: it is none that is read here; the message says what it is, if that is clear.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(512)
    if not head:
        raise FileError(path, expected="a checkpoint", found="an empty file")
    if head.startswith(b"PK\x03\x04") or head.startswith(b"PK\x05\x06"):
        return _kind_of_archive(path)
    if head.startswith(b"\x89HDF\r\n\x1a\n"):
        return "keras"
    if _is_safetensors(head, size):  # first: a header's length may begin like a pickle
        return "safetensors"
    if head[:1] == b"\x80":
        return _kind_of_pickle(path, head)
    if head.lstrip()[:1] == b"{":
        return "index"
    raise _unknown(path, head)


def _kind_of_archive(path: Path) -> Kind:
    with open_archive(path, path) as archive:
        names = archive.namelist()
    inner = {name.partition("/")[2] for name in names}
    if "policy.pth" in names:
        return "sb3"
    if inner & {"constants.pkl", "model.json"}:
        raise FileError(
            path,
            expected="a checkpoint of tensors",
            found="a TorchScript archive, which holds a program",
            hint="Where you trust it: torch.save(torch.jit.load(path).state_dict(), 'state.pt').",
        )
    if "data.pkl" in inner:
        return "torch"
    if names and all(name.endswith(".npy") for name in names):
        return "npz"
    listed = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    raise FileError(
        path,
        expected="a zip of torch.save, numpy.savez or Stable-Baselines3",
        found=f"a zip of {listed or 'nothing'}",
    )


def _kind_of_pickle(path: Path, head: bytes) -> Kind:
    if TORCH_MAGIC in head[:32]:
        return "torch-legacy"
    raise FileError(
        path,
        expected=f"one of {FORMATS}",
        found="a Python pickle that torch.save did not write, or one that is damaged",
        hint="It was not opened, as unpickling runs code. Where you trust it, load it and save "
        "the tensors with torch.save.",
    )


def _is_safetensors(head: bytes, size: int) -> bool:
    """Eight bytes of header length, then a JSON object; a cut file still counts as one."""
    length = int.from_bytes(head[:8], "little")
    return head[8:9] == b"{" and 0 < length < (1 << 40) and size > 8


def _unknown(path: Path, head: bytes) -> FileError:
    known = {
        b"GGUF": "a GGUF file",
        b"\x1f\x8b": "a gzip file",
        b"\x93NUMPY": "a single numpy array",
        b"<": "a web page or XML file",
        b"version https://git-lfs": "a Git LFS pointer, not the file itself",
    }
    found = next((what for magic, what in known.items() if head.startswith(magic)), "")
    if head[257:262] == b"ustar":
        found = "a tar archive (torch.save wrote such files before 2016)"
    if path.suffix == ".onnx":
        return FileError(path, expected=f"one of {FORMATS}", found="an ONNX model")
    return FileError(
        path,
        expected=f"one of {FORMATS}",
        found=found or f"content that begins with {head[:8]!r}",
        hint=f"The name ends in {path.suffix}, but the content decides." if path.suffix else "",
    )


def parse_json(path: Path, text: bytes) -> dict[str, object]:
    """Parse a JSON object.

    Raises:
        FileError: it is not one.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileError(path, expected="a JSON object", found=f"{type(error).__name__}") from error
    if not isinstance(value, dict):
        raise FileError(path, expected="a JSON object", found=type(value).__name__)
    return value
