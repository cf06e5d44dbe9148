"""Short sounds with labels, from a file."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Int

from weightspace.errors import DataError, FileError, reason_of

Array = npt.NDArray[Any]

KEYS = ("samples", "offsets", "digit", "speaker", "index", "rate")
"""The arrays that a file of spoken digits must hold."""

_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, TypeError)


@dataclass(frozen=True, eq=False)
class SpokenDigits:
    """Recordings of spoken digits, such as the Free Spoken Digit Dataset.

    Args:
        name: for recipes and reports.
        samples: all recordings one after the other, as 16-bit numbers.
        offsets: where each recording starts, and the end.
        digit: what is said, 0 to 9.
        speaker: who says it.
        take: which recording of this digit by this speaker it is, from 0.
        rate: samples a second.
        sources: each recording's number in the whole set; a subset keeps them.
    """

    name: str
    samples: Int[Array, " all"]
    offsets: Int[Array, " clips+1"]
    digit: tuple[int, ...]
    speaker: tuple[str, ...]
    take: tuple[int, ...]
    rate: int
    sources: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.digit)

    @property
    def sha256(self) -> str:
        """A hash of all recordings and labels, in hexadecimal digits."""
        digest = hashlib.sha256()
        for array in (self.samples, self.offsets):
            digest.update(f"{array.dtype} {array.shape};".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        digest.update(f"{self.digit} {self.speaker} {self.take} {self.rate}".encode())
        return digest.hexdigest()

    def clip(self, number: int, length: int) -> tuple[npt.NDArray[np.float32], float]:
        """The start of a recording, as loud as can be; silence follows one that is shorter.

        Args:
            number: of the recording.
            length: how many samples.

        Returns:
            Values from -1 to 1, and what they were divided by: the loudest sample's share of
            the largest there can be.
        """
        start, end = self.offsets[number : number + 2]
        part = self.samples[start : min(end, start + length)].astype(np.float64) / 32768
        loudest = float(np.abs(part).max()) or 1.0
        return np.pad(part / loudest, (0, length - len(part))).astype(np.float32), loudest

    def subset(self, count: int, *, seed: int = 0) -> SpokenDigits:
        """Choose recordings at random.

        Args:
            count: how many.
            seed: of the choice.

        Raises:
            DataError: there are not as many.
        """
        if not 1 <= count <= len(self):
            raise DataError(
                self.name, expected=f"1 to {len(self)} recordings to choose", found=str(count)
            )
        chosen = sorted(np.random.default_rng(seed).permutation(len(self))[:count].tolist())
        parts = [self.samples[self.offsets[place] : self.offsets[place + 1]] for place in chosen]
        return SpokenDigits(
            self.name,
            np.concatenate(parts),
            np.cumsum([0, *map(len, parts)]),
            tuple(self.digit[place] for place in chosen),
            tuple(self.speaker[place] for place in chosen),
            tuple(self.take[place] for place in chosen),
            self.rate,
            tuple(self.sources[place] for place in chosen),
        )


def load_spoken_digits(path: Path | str) -> SpokenDigits:
    """Read recordings from an ``.npz`` file.

    It holds ``samples`` (16-bit, mono), ``offsets`` (recording i is
    ``samples[offsets[i]:offsets[i + 1]]``), ``digit``, ``speaker`` and ``index`` (which take it
    is) for each, and ``rate``. Nothing in the file is executed.

    Raises:
        FileError: the file is missing, damaged, unsafe or lacks arrays.
        DataError: the arrays do not belong together.
    """
    path = Path(path)
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files if key in KEYS}
    except (*_DAMAGED, AttributeError) as error:
        raise FileError(
            path,
            expected="an .npz file of plain arrays",
            found=reason_of(error),
        ) from error
    missing = [key for key in KEYS if key not in arrays]
    if missing:
        raise FileError(
            path,
            expected=f"arrays {', '.join(KEYS)}",
            found=f"{', '.join(arrays) or 'none'}; {', '.join(missing)} missing",
        )
    _check(path, arrays)
    return SpokenDigits(
        path.stem,
        arrays["samples"],
        arrays["offsets"].astype(np.int64),
        tuple(map(int, arrays["digit"])),
        tuple(map(str, arrays["speaker"])),
        tuple(map(int, arrays["index"])),
        int(arrays["rate"]),
        tuple(range(len(arrays["digit"]))),
    )


def _check(path: Path, arrays: dict[str, Array]) -> None:
    samples, offsets = arrays["samples"], arrays["offsets"]
    if samples.dtype != np.int16 or samples.ndim != 1:
        raise DataError(
            path,
            expected="16-bit samples of one channel",
            found=f"{samples.dtype} of shape {samples.shape}",
        )
    count = len(arrays["digit"])
    if any(len(arrays[key]) != count for key in ("speaker", "index")) or offsets.shape != (
        count + 1,
    ):
        raise DataError(
            path,
            expected="a digit, speaker and index for each recording, and one offset more",
            found=", ".join(f"{key} {arrays[key].shape}" for key in KEYS[1:5]),
        )
    if not count or (np.diff(offsets) <= 0).any() or offsets[0] < 0 or offsets[-1] > len(samples):
        raise DataError(
            path,
            expected="at least one recording, offsets that rise within the samples",
            found=f"{count} recordings, offsets up to {offsets.max()} of {len(samples)} samples",
        )
