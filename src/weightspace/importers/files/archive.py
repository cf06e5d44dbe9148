"""Zip archives from elsewhere: checked before anything is unpacked."""

from __future__ import annotations

import zipfile
from collections import Counter
from pathlib import Path
from typing import BinaryIO

from weightspace.errors import FileError
from weightspace.importers.files.guard import reading

FREE_BYTES = 64 << 20
"""Any archive may unpack to this much."""
EXPANSION = 100
"""A larger one may unpack to this many times its own size; trained weights hardly shrink."""
MEMBER_LIMIT = 200_000


def open_archive(source: Path | BinaryIO, subject: object) -> zipfile.ZipFile:
    """Open a zip archive whose declared contents are plausible for its size.

    Args:
        source: a path or an open file.
        subject: how errors call the file.

    Raises:
        FileError: it is damaged, encrypted, has doubled or overlapping members, or unpacks to
            far more than it holds (a zip bomb).
    """
    with reading(subject, "a zip archive"):
        archive = zipfile.ZipFile(source)
        assert archive.fp is not None
        size = archive.fp.seek(0, 2)
        try:
            _check_members(archive.infolist(), size, subject)
        except FileError:
            archive.close()
            raise
    return archive


def read_member(archive: zipfile.ZipFile, name: str, subject: object) -> bytes:
    """Unpack one member; at most its declared size, which :func:`open_archive` has checked."""
    with reading(f"{subject}, member {name}", "an undamaged member of a zip archive"):
        return archive.read(name)


def _check_members(members: list[zipfile.ZipInfo], size: int, subject: object) -> None:
    if len(members) > MEMBER_LIMIT:
        raise FileError(
            subject, expected=f"at most {MEMBER_LIMIT} members", found=f"{len(members)}"
        )
    (doubled, times), *_ = Counter(member.filename for member in members).most_common(1) or [
        ("", 0)
    ]
    if times > 1:
        raise FileError(subject, expected="members that differ", found=f"{doubled!r} twice")
    for member in members:
        if member.flag_bits & 0x1:
            raise FileError(subject, expected="no encryption", found=f"{member.filename} encrypted")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise FileError(
                subject,
                expected="members stored or deflated",
                found=f"{member.filename} with compression method {member.compress_type}",
            )
    packed = sum(member.compress_size for member in members)
    unpacked = sum(member.file_size for member in members)
    if packed > size:
        raise FileError(
            subject,
            expected=f"members of {size} bytes together",
            found=f"{packed} bytes declared",
            hint="The archive is damaged, or its members overlap to unpack without end.",
        )
    if unpacked > max(FREE_BYTES, EXPANSION * size):
        raise FileError(
            subject,
            expected=f"an archive of {size} bytes to unpack to at most {EXPANSION} times its size",
            found=f"{unpacked} bytes declared",
            hint="It was refused before anything was unpacked: it looks like a zip bomb.",
        )
