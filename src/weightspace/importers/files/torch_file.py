"""Files of ``torch.save``: zip archives, and the pickles written before torch 1.6."""

from __future__ import annotations

import io
import warnings
import zipfile
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from pickle import UnpicklingError
from typing import BinaryIO

import torch

from weightspace.errors import FileError
from weightspace.importers.files.archive import open_archive, read_member
from weightspace.importers.files.contents import Checkpoint
from weightspace.importers.files.guard import reading
from weightspace.importers.files.pickle_scan import scan_pickle
from weightspace.importers.files.sorting import sort_states

Source = Path | io.BytesIO
WHAT = "a torch checkpoint"


def read_torch(path: Path) -> Checkpoint:
    """Read a file of ``torch.save``: a zip, mapped into memory where it is not compressed."""
    return Checkpoint(path, "torch", *sort_states(load_torch(path, path), path))


def read_legacy_torch(path: Path) -> Checkpoint:
    """Read a file of ``torch.save`` as written before torch 1.6."""
    return Checkpoint(path, "torch-legacy", *sort_states(load_torch(path, path), path))


def load_torch(source: Source, subject: object) -> object:
    """Check and load a file of ``torch.save``: a tree of containers and tensors.

    Raises:
        FileError: it is damaged, declares more than it holds, or holds anything but tensors
            in plain containers.
    """
    with _open(source) as file, reading(subject, WHAT):
        if file.read(2) == b"PK":
            mmap = _check_archive(file, subject)
        else:
            _check_legacy(file, subject)
            mmap = False
    return _load(source, subject, mmap=mmap)


def _open(source: Source) -> AbstractContextManager[BinaryIO]:
    """The file of a path; bytes in memory stay open."""
    return source.open("rb") if isinstance(source, Path) else nullcontext(source)


def _check_archive(file: BinaryIO, subject: object) -> bool:
    """Scan the pickle of a zip and compare its storages with the members.

    Returns:
        Whether the members are stored as they are, so that the file can be mapped.
    """
    with open_archive(file, subject) as archive:
        pickle = _pickle_name(archive, subject)
        storages = scan_pickle(io.BytesIO(read_member(archive, pickle, subject)), subject)
        folder = pickle.removesuffix("data.pkl")
        members = {member.filename: member for member in archive.infolist()}
        for key, nbytes in storages.items():
            _check_record(members.get(f"{folder}data/{key}"), key, nbytes, subject)
        with reading(subject, "a checkpoint whose records have their checksums"):
            damaged = archive.testzip()
        if damaged is not None:
            raise FileError(
                f"{subject}, record {damaged}",
                expected="its checksum",
                found="another one: the file is damaged",
                hint="Copy or download the file again.",
            )
        return all(m.compress_type == zipfile.ZIP_STORED for m in members.values())


def _pickle_name(archive: zipfile.ZipFile, subject: object) -> str:
    names = [n for n in archive.namelist() if n.count("/") == 1 and n.endswith("/data.pkl")]
    if len(names) != 1:
        raise FileError(subject, expected="one member data.pkl", found=str(len(names)))
    return names[0]


def _check_record(member: zipfile.ZipInfo | None, key: str, nbytes: int, subject: object) -> None:
    if member is None or member.file_size != nbytes:
        raise FileError(
            f"{subject}, storage {key!r}",
            expected=f"{nbytes} bytes, as its pickle declares",
            found="none" if member is None else f"{member.file_size} bytes",
            hint="The file is damaged or made to deceive.",
        )


def _check_legacy(file: BinaryIO, subject: object) -> None:
    """Scan the five pickles of a legacy file: magic, version, system, contents, storage keys."""
    size = file.seek(0, 2)
    file.seek(0)
    storages: dict[str, int] = {}
    for _ in range(5):
        storages |= scan_pickle(file, subject)
    left = size - file.tell()
    declared = sum(storages.values()) + 8 * len(storages)
    if declared > left:
        raise FileError(
            subject,
            expected=f"{declared} bytes of tensors, as its pickle declares",
            found=f"{left} bytes",
            hint="The file is cut short: copy or download it again.",
        )


def _load(source: Source, subject: object, *, mmap: bool) -> object:
    """Give a scanned file to torch.

    torch takes a path that ends in .safetensors for such a file whatever it holds, so it is
    then given the open file.
    """
    with reading(subject, WHAT), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if isinstance(source, Path) and source.suffix != ".safetensors":
                return torch.load(source, map_location="cpu", weights_only=True, mmap=mmap)
            with _open(source) as file:
                file.seek(0)
                return torch.load(file, map_location="cpu", weights_only=True)
        except UnpicklingError as error:
            # torch's own message recommends to switch the protection off.
            raise FileError(
                subject, expected=f"{WHAT} that torch finds safe", found="one that it refuses"
            ) from error
