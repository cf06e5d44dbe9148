"""The Small CNN Zoo: all networks in one array, a row each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch
from numpy.lib import format as npy

from weightspace.errors import FileError, reason_of
from weightspace.importers.recognition.tensor_names import parse_name
from weightspace.zoo.importing.blueprints import BareBlueprint, activation_name
from weightspace.zoo.importing.found import FoundNetwork, Unit
from weightspace.zoo.importing.layout import Layout
from weightspace.zoo.importing.listing import Listing, list_files
from weightspace.zoo.importing.tables import Row, flat, read_csv

if TYPE_CHECKING:
    import pyarrow as pa

WEIGHTS = "weights.npy"
LAYOUT = "layout.csv"
METRICS = ("metrics.csv.gz", "metrics.csv")
ROWS = 512
"""Networks read at once."""


class Place(NamedTuple):
    """Where a tensor lies in a row of the array."""

    name: str
    start: int
    end: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Array:
    """A table of numbers in numpy's format, of which only wanted rows are read.

    Not a memory map: mapped pages would count as memory until they are given back.

    Args:
        path: the file.
        dtype: of the numbers.
        rows: how many.
        width: numbers in a row.
        start: the offset of the first number.
    """

    path: Path
    dtype: np.dtype[Any]
    rows: int
    width: int
    start: int

    @classmethod
    def of(cls, path: Path) -> Array:
        """Read and check the header.

        Raises:
            FileError: it is no table of numbers, or the file has another length.
        """
        readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        try:
            with path.open("rb") as file:
                shape, fortran, dtype = readers[npy.read_magic(cast(Any, file))](cast(Any, file))
                start, end = file.tell(), file.seek(0, 2)
        except (OSError, ValueError, EOFError, KeyError, SyntaxError, TypeError) as error:
            raise FileError(path, expected="a numpy array", found=reason_of(error)) from error
        if len(shape) != 2 or dtype.kind != "f" or fortran:
            raise FileError(
                path,
                expected="a numpy array of numbers, a row a network, rows one after another",
                found=f"{dtype} of shape {shape}{', columns first' if fortran else ''}",
            )
        if end - start != shape[0] * shape[1] * dtype.itemsize:
            raise FileError(
                path,
                expected=f"{shape[0] * shape[1] * dtype.itemsize} bytes for a numpy array of "
                f"shape {shape}",
                found=f"{end - start}",
                hint="The file is cut short: copy or download it again.",
            )
        return cls(path, dtype, *shape, start)

    def read(self, first: int, end: int) -> npt.NDArray[Any]:
        """Read rows."""
        offset = self.start + first * self.width * self.dtype.itemsize
        count = (end - first) * self.width
        values = np.fromfile(self.path, self.dtype, count, offset=offset)
        return values.astype(self.dtype.newbyteorder("="), copy=False).reshape(-1, self.width)


@dataclass(frozen=True)
class SmallCnnZoo(Layout):
    """``weights.npy``, ``layout.csv`` and ``metrics.csv.gz`` (Unterthiner et al. 2020).

    A row of the array is a checkpoint: the tensors that ``layout.csv`` lists (``varname``,
    ``start_idx``, ``end_idx``, ``shape``) one after another, convolutions as Keras has them,
    ``[height, width, in, out]``. ``metrics.csv.gz`` has a line for each row: hyperparameters
    (``config.*``), the step, accuracies and losses. The networks of one ``modeldir`` are
    checkpoints of one training.
    """

    name: ClassVar[str] = "small-cnn-zoo"
    summary: ClassVar[str] = "weights.npy, layout.csv and metrics.csv.gz, a row a network"

    @classmethod
    def fits(cls, folder: Path, files: list[str]) -> bool:
        """The array and its layout lie side by side somewhere in the folder."""
        return any(f"{base}{LAYOUT}" in set(files) for base in _bases(files))

    def listing(self, files: list[str]) -> Listing:
        """Blocks of rows of every array."""
        bases = [base for base in _bases(files) if f"{base}{LAYOUT}" in set(files)]
        if not bases:
            raise FileError(
                self.folder, expected=f"{WEIGHTS} and {LAYOUT} side by side", found="none"
            )
        units: list[Unit] = []
        for base in bases:
            networks = self._array(f"{base}{WEIGHTS}").rows
            units += [
                Unit(f"{base}{WEIGHTS}", (first, min(first + ROWS, networks)))
                for first in range(0, networks, ROWS)
            ]
        own = {f"{base}{name}" for base in bases for name in (WEIGHTS, LAYOUT, *METRICS)}
        return Listing(tuple(units), list_files((f for f in files if f not in own),
                                                lambda _: False).ignored)  # fmt: skip

    def read(self, unit: Unit) -> Iterator[FoundNetwork]:
        """Read some rows."""
        assert unit.rows is not None
        places, metrics = self._beside(unit.file)
        first, end = unit.rows
        rows = [] if metrics is None else metrics.slice(first, end - first).to_pylist()
        values = self._array(unit.file).read(first, end)
        for number in range(first, end):
            flat_row = torch.from_numpy(values[number - first])
            state = {p.name: flat_row[p.start : p.end].reshape(p.shape) for p in places}
            row: Row = {"row": number, **(_metrics_row(rows[number - first]) if rows else {})}
            activation = self.activation or activation_name(row.get("config.activation"))
            order = [".".join(parse_name(p.name).path) for p in places]
            source = str(row.get("modeldir") or "")
            blueprint = BareBlueprint(state, activation, list(dict.fromkeys(order)))
            yield FoundNetwork(f"row {number}", state, blueprint, row, source)

    def _array(self, file: str) -> Array:
        """Read the header of the array; its rows are read when they are wanted."""
        if file not in self._arrays:
            self._arrays[file] = Array.of(self.folder / file)
        return self._arrays[file]

    def _beside(self, file: str) -> tuple[list[Place], pa.Table | None]:
        """The layout and the metrics of an array, read once in each process."""
        if file not in self._tables:
            base = self.folder / PurePosixPath(file).parent
            array = self._array(file)
            metrics = next((base / m for m in METRICS if (base / m).is_file()), None)
            table = None if metrics is None else _metrics(metrics, array.rows)
            self._tables[file] = _places(base / LAYOUT, array.width), table
        return self._tables[file]

    @cached_property
    def _arrays(self) -> dict[str, Array]:
        return {}

    @cached_property
    def _tables(self) -> dict[str, tuple[list[Place], pa.Table | None]]:
        return {}

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.folder, self.activation)


def _bases(files: list[str]) -> list[str]:
    """The folders with an array, as prefixes of paths."""
    return [f.removesuffix(WEIGHTS) for f in files if PurePosixPath(f).name == WEIGHTS]


def _metrics(path: Path, networks: int) -> pa.Table:
    """Read the metrics; as a table of Arrow they take a tenth of what rows would."""
    import pyarrow as pa  # noqa: PLC0415 (only this layout needs it)
    from pyarrow import csv  # noqa: PLC0415

    try:
        options = csv.ReadOptions(use_threads=False)
        convert = csv.ConvertOptions(strings_can_be_null=True)
        table = csv.read_csv(str(path), read_options=options, convert_options=convert)
    except (pa.ArrowException, OSError) as error:
        raise FileError(path, expected="a CSV file", found=reason_of(error)) from error
    if table.num_rows != networks:
        raise FileError(
            path, expected=f"{networks} lines, one a network", found=str(table.num_rows)
        )
    return table


def _metrics_row(row: Mapping[str, Any]) -> Row:
    """A line of metrics; the column without a name is the line's own label."""
    named = {name or "name": value for name, value in row.items()}
    return dict(flat(named))


def _places(path: Path, width: int) -> list[Place]:
    """Read the layout and check it against the array's width."""
    places = []
    for row in read_csv(path):
        try:
            start = row["start_idx"] if "start_idx" in row else row["start"]
            end = row["end_idx"] if "end_idx" in row else row["end"]
            shape = _shape(str(row["shape"]))
            places.append(Place(str(row["varname"]), start, end, shape))
        except (KeyError, ValueError) as error:
            raise FileError(
                path,
                expected="the columns varname, start_idx, end_idx and shape",
                found=f"{', '.join(map(str, row))} ({error})",
            ) from error
    for place in places:
        good = isinstance(place.start, int) and isinstance(place.end, int)
        if (
            not good
            or not 0 <= place.start <= place.end <= width
            or (place.end - place.start != int(np.prod(place.shape)))
        ):
            raise FileError(
                f"{path}, {place.name}",
                expected=f"a range of {int(np.prod(place.shape))} within {width} values",
                found=f"{place.start} to {place.end}",
            )  # fmt: skip
    if len({place.name for place in places}) != len(places) or not places:
        raise FileError(path, expected="tensors with different names", found=f"{len(places)} lines")
    return places


def _shape(text: str) -> tuple[int, ...]:
    """Read a shape such as ``(3, 3, 1, 16)``; only digits, commas and brackets are allowed."""
    if not re.fullmatch(r"[\[(]?[\d,\s]*[\])]?", text.strip()):
        raise ValueError(f"shape {text!r}")
    return tuple(int(size) for size in re.findall(r"\d+", text))
