"""Files of a zoo: written whole or not at all, read with clear errors."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weightspace.errors import DataError, FileError, reason_of

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_SUFFIX = ".tmp"


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file of a zoo as it was written.

    Args:
        name: its name in the zoo's folder.
        size: its length in bytes.
        sha256: the SHA-256 of its contents, in hexadecimal digits.
    """

    name: str
    size: int
    sha256: str

    def require_size(self, folder: Path) -> None:
        """Raise unless the file is there with the length it was written with.

        Raises:
            FileError: the file is missing, or shorter or longer.
        """
        path = folder / self.name
        found = file_size(path)
        if found != self.size:
            raise FileError(
                path,
                expected=f"{self.size} bytes, as zoo.json says",
                found=f"{found} bytes",
                hint="The file is truncated or was replaced: make or fetch it again.",
            )

    def read(self, folder: Path) -> bytes:
        """Read the file, checked against its checksum.

        Raises:
            FileError: the file is missing or has changed.
        """
        self.require_size(folder)
        try:
            content = (folder / self.name).read_bytes()
        except OSError as error:
            raise FileError(
                folder / self.name, expected="a readable file", found=reason_of(error)
            ) from error
        digest = hashlib.sha256(content).hexdigest()
        if digest != self.sha256:
            raise FileError(
                folder / self.name,
                expected=f"the SHA-256 {self.sha256}, as zoo.json says",
                found=digest,
                hint="The file is damaged: make or fetch it again.",
            )
        return content


def write_file(path: Path, content: bytes) -> FileRecord:
    """Write a file atomically: after a kill at any moment it is whole, or not there.

    A temporary file in the same folder is written, synchronised and renamed.

    Raises:
        FileError: the disk is full, or the folder cannot be written.
    """
    # Not tempfile.mkstemp: its files are private to the user, whatever the umask.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}{_SUFFIX}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _write_error(path, len(content), error) from error
        raise
    _synchronise(path.parent)
    return FileRecord(path.name, len(content), hashlib.sha256(content).hexdigest())


def temporaries(folder: Path) -> Iterator[Path]:
    """The temporary files that killed processes left behind."""
    return folder.glob(f".*{_SUFFIX}")


def file_size(path: Path) -> int:
    """The length of a regular file in bytes.

    Raises:
        FileError: there is no such file.
    """
    if not path.is_file():
        raise FileError(path, expected="a file", found="none")
    return path.stat().st_size


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        FileError: the file is missing, not JSON, or not an object.
    """
    file_size(path)
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise FileError(path, expected="JSON", found=f"unreadable text ({error})") from error
    if not isinstance(data, dict):
        raise FileError(path, expected="a JSON object", found=f"a {type(data).__name__}")
    return data


def as_json(subject: str, data: object) -> Any:
    """Put data into the form it has after being written as JSON and read again.

    Raises:
        DataError: something is not a dictionary, list, string, number, boolean or None.
    """
    try:
        return json.loads(json.dumps(data, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(
            subject,
            expected="dictionaries, lists, strings, finite numbers, booleans and None",
            found=reason_of(error),
        ) from error


def _write_error(path: Path, size: int, error: OSError) -> FileError:
    if error.errno not in _NO_ROOM:
        return FileError(
            path,
            expected="a folder that can be written",
            found=reason_of(error),
        )
    free = shutil.disk_usage(path.parent).free
    return FileError(
        path,
        expected=f"room for {size} bytes",
        found=f"{os.strerror(error.errno)} ({free} bytes free on the disk)",
        hint="Free some space and run the same command again; finished parts are kept.",
    )


def _synchronise(folder: Path) -> None:
    """Make a renaming survive a power failure, where folders can be synchronised."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)
