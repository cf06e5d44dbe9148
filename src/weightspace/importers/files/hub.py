"""Files of the Hugging Face hub in place of paths: ``hf://org/name/file`` or ``org/name``."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from weightspace.errors import FileError

SUFFIXES = (
    ".safetensors",
    ".bin",
    ".pt",
    ".pth",
    ".ckpt",
    ".npz",
    ".h5",
    ".keras",
    ".onnx",
    ".zip",
)
"""The files that are taken of a repository of a model, the most welcome first."""
_PART = r"[\w.-]+"
_ADDRESS = re.compile(rf"hf:/{{1,2}}(datasets/)?({_PART}/{_PART})(?:@([\w./-]+?))?(?:/(.+))?")
_SHORT = re.compile(rf"({_PART}/{_PART})")


class Address(NamedTuple):
    """A place on the hub.

    Args:
        repository: ``org/name``.
        kind: ``model`` or ``dataset``.
        revision: a branch, tag or commit; None for the main one.
        file: the path in the repository; empty for all of it.
    """

    repository: str
    kind: str
    revision: str | None
    file: str

    def __str__(self) -> str:
        front = "datasets/" * (self.kind == "dataset")
        revision = f"@{self.revision}" if self.revision else ""
        return f"hf://{front}{self.repository}{revision}{'/' * bool(self.file)}{self.file}"


def hub_address(path: str | os.PathLike[str]) -> Address | None:
    """The place on the hub that a path stands for, or None if it is a path.

    ``org/name`` without ``hf://`` counts if there is no such file, no folder ``org``, and it
    does not end as files do.

    >>> print(hub_address("hf://org/name@v1/a/b.safetensors"))
    hf://org/name@v1/a/b.safetensors
    >>> hub_address("runs/model.pt") is None
    True
    """
    text = os.fspath(path)
    found = _ADDRESS.fullmatch(text)
    if found is not None:
        kind = "dataset" if found[1] else "model"
        return Address(found[2], kind, found[3], (found[4] or "").strip("/"))
    short = _SHORT.fullmatch(text)
    if short is None or Path(text).suffix.lower() in (*SUFFIXES, ".json", ".csv"):
        return None
    there = Path(text).exists() or Path(text).parent.exists()
    return None if there or ".." in text else Address(short[1], "model", None, "")


def local_path(path: str | os.PathLike[str]) -> Path:
    """The file or folder itself, or where it lies in the hub's cache once it was fetched.

    Of a whole repository of a model its one checkpoint is taken, of a dataset the folder.

    Args:
        path: a path; or ``hf://org/name/file``, ``hf://org/name``, ``hf://datasets/org/name``,
            each with ``@revision`` if wished; or ``org/name``.

    Raises:
        FileError: the extra ``hub`` is not installed, there is no such file, or it is not in
            the cache and the hub cannot be reached.
    """
    address = hub_address(path)
    if address is None:
        if os.fspath(path).startswith("hf:"):
            raise FileError(
                path, expected="hf://org/name/file or hf://org/name", found="another address"
            )
        return Path(path)
    try:
        import huggingface_hub  # noqa: PLC0415 (optional)
    except ImportError as error:
        raise FileError(
            address,
            expected="the package huggingface_hub",
            found="no such package",
            hint="Install it: pip install 'weightspace[hub]'.",
        ) from error
    kind, revision = address.kind, address.revision
    wanted = None if kind == "dataset" else [f"*{s}" for s in (*SUFFIXES, ".json")]
    try:
        if address.file:
            return Path(
                huggingface_hub.hf_hub_download(
                    address.repository, address.file, repo_type=kind, revision=revision
                )
            )
        folder = huggingface_hub.snapshot_download(
            address.repository, allow_patterns=wanted, repo_type=kind, revision=revision
        )
    except Exception as error:  # whatever the hub's client and the network raise
        raise _failure(address, error) from error
    return Path(folder) if address.kind == "dataset" else _checkpoint(Path(folder), address)


def _checkpoint(folder: Path, address: Address) -> Path:
    """The one checkpoint of a repository."""
    for suffix in (".index.json", *SUFFIXES):
        found = sorted(p for p in folder.rglob(f"*{suffix}") if p.is_file())
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(str(p.relative_to(folder)) for p in found[:4])
            raise FileError(
                address,
                expected="a repository with one checkpoint",
                found=f"{len(found)}: {names}",
                hint=f"Name one: hf://{address.repository}/{found[0].relative_to(folder)}.",
            )
    raise FileError(address, expected="a checkpoint", found="none in the repository")


def _failure(address: Address, error: Exception) -> FileError:
    """What went wrong, in one line."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & {"LocalEntryNotFoundError", "OfflineModeIsEnabled", "ConnectionError"} or (
        "HTTPError" in names and getattr(error, "response", None) is None
    ):
        return FileError(
            address,
            expected="a file of the Hugging Face hub",
            found="no connection to the hub, and no copy in the cache",
            hint="Fetch it where there is a network (`hf download`), or set HF_HOME to the "
            "folder of a cache that holds it.",
        )
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    return FileError(
        address,
        expected="a file of the Hugging Face hub that you may read",
        found=f"{type(error).__name__}: {first[:200]}",
        hint="Check the name; for gated repositories log in with `hf auth login`.",
    )
