"""Shards: safetensors files of networks of one spec, stacked per parameter.

The safetensors layout is eight bytes with the header's length, a JSON header that gives
each tensor's type, shape and byte range, and the tensors' bytes without gaps. Headers are
checked whole before a byte of a tensor is read, because shards come from elsewhere.

Rows are read with positioned reads rather than through a memory map. A random batch of
small networks is then as fast or faster, the reader's memory stays that of its batches
(mapped pages count as resident until they are given back), and a file that is cut off
while it is open gives an error instead of a bus fault.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import torch
from safetensors.torch import save

from weightspace.errors import FileError, StateError, reason_of
from weightspace.graph import GraphSpec, Parameter, State, check_state
from weightspace.zoo.store_files import file_size

DTYPES: dict[str, torch.dtype] = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "U16": torch.uint16,
    "I16": torch.int16,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "U32": torch.uint32,
    "I32": torch.int32,
    "F32": torch.float32,
    "U64": torch.uint64,
    "I64": torch.int64,
    "F64": torch.float64,
    "C64": torch.complex64,
}
"""The tensor types a shard can hold, by their names in the safetensors header."""

_HEADER_LIMIT = 100_000_000  # the limit of the safetensors library itself


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """Where a tensor lies in a shard.

    Args:
        dtype: its type.
        shape: its shape, networks first.
        start: the offset of its first byte in the file.
    """

    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int

    @property
    def row_bytes(self) -> int:
        """The bytes of one network."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class ShardLayout:
    """What a shard's header says.

    Args:
        path: the file.
        size: its length in bytes.
        tensors: the place of each tensor.
    """

    path: Path
    size: int
    tensors: Mapping[str, TensorPlace]

    def require(self, spec: GraphSpec, networks: int) -> None:
        """Raise unless the shard holds this many networks of the spec.

        Raises:
            FileError: naming the first tensor that is missing, unknown or of another type
                or shape.
        """
        wanted = {parameter.name: parameter for parameter in spec_tensors(spec)}
        if set(wanted) != set(self.tensors):
            differing = sorted(set(wanted) ^ set(self.tensors))
            raise FileError(
                self.path,
                expected=f"the {len(wanted)} tensors of the spec",
                found=f"{len(self.tensors)} tensors, which differ in {', '.join(differing)}",
            )
        for name, parameter in wanted.items():
            place = self.tensors[name]
            shape = (networks, *parameter.shape)
            if place.shape != shape or str(place.dtype) != f"torch.{parameter.dtype}":
                raise FileError(
                    f"{self.path}, tensor {name!r}",
                    expected=f"{parameter.dtype} of shape {shape}",
                    found=f"{str(place.dtype).removeprefix('torch.')} of shape {place.shape}",
                )


class Run(NamedTuple):
    """Neighbouring rows of a shard and the first row of the batch they go to."""

    row: int
    length: int
    place: int


def spec_tensors(spec: GraphSpec) -> tuple[Parameter, ...]:
    """Every tensor of a spec's state dict, those left out of the graph included."""
    return (*spec.parameters, *(item.parameter for item in spec.left_out))


def shard_bytes(spec: GraphSpec, stacked: State) -> bytes:
    """Write networks of one spec as the contents of a shard.

    Raises:
        StateError: a tensor is missing, or of another shape or type than the spec's.
    """
    check_state(spec, stacked, batch=True)
    for parameter in spec_tensors(spec):
        dtype = stacked[parameter.name].dtype
        if str(dtype) != f"torch.{parameter.dtype}" or dtype not in DTYPES.values():
            raise StateError(
                f"stacked state, tensor {parameter.name!r}",
                expected=f"type {parameter.dtype}, one that safetensors can hold",
                found=str(dtype).removeprefix("torch."),
                hint="Convert the tensor, or make the spec with the type it has.",
            )
    return save({name: tensor.detach().cpu().contiguous() for name, tensor in stacked.items()})


def read_layout(path: Path) -> ShardLayout:
    """Read and check the header of a safetensors file.

    Raises:
        FileError: the file is missing, truncated, or its header contradicts itself.
    """
    size = file_size(path)
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or not 2 <= length <= min(_HEADER_LIMIT, size - 8):
                raise FileError(
                    path,
                    expected="a safetensors header that fits into the file",
                    found=f"a header of {length} bytes in a file of {size} bytes",
                )
            text = file.read(length)
    except OSError as error:
        raise FileError(path, expected="a readable file", found=reason_of(error)) from error
    header = _parse_header(path, text)
    start = 8 + length
    places = {name: _place(path, name, entry, start) for name, entry in header.items()}
    _check_gapless(path, places, start, size)
    return ShardLayout(path, size, places)


def read_rows(layout: ShardLayout, runs: Iterable[Run], outputs: Mapping[str, memoryview]) -> None:
    """Read rows of tensors into buffers.

    Args:
        layout: the shard.
        runs: which rows, and where they go.
        outputs: a writable view of bytes for each tensor, rows one after the other.

    Raises:
        FileError: the file is gone or shorter than it was.
    """
    runs = list(runs)
    try:
        descriptor = os.open(layout.path, os.O_RDONLY)
        try:
            if os.fstat(descriptor).st_size != layout.size:
                _raise_cut(layout)
            for name, view in outputs.items():
                place = layout.tensors[name]
                start, width = place.start, place.row_bytes
                for row, length, at in runs:
                    target = view[at * width : (at + length) * width]
                    if os.preadv(descriptor, [target], start + row * width) != len(target):
                        _read_slowly(descriptor, target, start + row * width, layout)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise FileError(layout.path, expected="a readable file", found=reason_of(error)) from error


def _read_slowly(descriptor: int, target: memoryview, offset: int, layout: ShardLayout) -> None:
    """Read what one call did not: systems limit how much a call reads (2 GiB on Linux)."""
    while len(target):
        count = os.preadv(descriptor, [target], offset)
        if count == 0:
            _raise_cut(layout)
        target, offset = target[count:], offset + count


def _raise_cut(layout: ShardLayout) -> NoReturn:
    raise FileError(
        layout.path,
        expected=f"{layout.size} bytes",
        found="another length than when the file's header was read",
        hint="The file is truncated or was replaced: make or fetch it again.",
    )


def _parse_header(path: Path, text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(
            text.decode(), object_pairs_hook=_unique_keys, parse_constant=_reject_constant
        )
    except (ValueError, RecursionError) as error:
        raise FileError(
            path, expected="a safetensors header in JSON", found=f"unreadable text ({error})"
        ) from error
    if not isinstance(header, dict):
        raise FileError(path, expected="a JSON object as header", found=type(header).__name__)
    notes = header.pop("__metadata__", {})
    if not isinstance(notes, dict) or not all(isinstance(note, str) for note in notes.values()):
        raise FileError(path, expected="strings under __metadata__", found=repr(notes)[:80])
    return header


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key stands twice")
    return result


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _place(path: Path, name: str, entry: Any, base: int) -> TensorPlace:
    """Check one tensor's entry; the byte range must be what type and shape need."""
    match entry:
        case {"dtype": str(code), "shape": list(shape), "data_offsets": [begin, end]} if (
            len(entry) == 3
            and code in DTYPES
            and len(shape) <= 64
            and all(_is_count(number) for number in [*shape, begin, end])
        ):
            needed = math.prod(shape) * DTYPES[code].itemsize
            if end - begin != needed:
                raise FileError(
                    f"{path}, tensor {name!r}",
                    expected=f"{needed} bytes for {code} of shape {tuple(shape)}",
                    found=f"the range [{begin}, {end})",
                )
            return TensorPlace(DTYPES[code], tuple(shape), base + begin)
    raise FileError(
        f"{path}, tensor {name!r}",
        expected=f"a dtype of {', '.join(DTYPES)}, a shape and data_offsets",
        found=repr(entry)[:120],
    )


def _is_count(number: object) -> bool:
    return type(number) is int and 0 <= number < 2**63


def _check_gapless(path: Path, places: dict[str, TensorPlace], start: int, size: int) -> None:
    """Tensors must fill the file without gap or overlap, as the format demands."""
    for place in sorted(places.values(), key=lambda p: (p.start, math.prod(p.shape))):
        if place.start != start:
            raise FileError(
                path, expected=f"a tensor at byte {start}", found=f"the next one at {place.start}"
            )
        start += math.prod(place.shape) * place.dtype.itemsize
    if start != size:
        raise FileError(
            path,
            expected=f"{start} bytes, by its header",
            found=f"{size} bytes",
            hint="The file is truncated or was replaced: make or fetch it again.",
        )
