"""The manifest: ``zoo.json``, which says what a zoo's folder holds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch

from weightspace.errors import FileError, WeightspaceError, reason_of
from weightspace.graph import GraphSpec, spec_from_dict, spec_to_dict
from weightspace.zoo.shards import DTYPES, spec_tensors
from weightspace.zoo.store_files import FileRecord, as_json, read_json

MANIFEST = "zoo.json"
PLAN = "plan.json"
METADATA = "metadata.parquet"
FORMAT = "weightspace zoo"
VERSION = 1

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """A shard as the manifest lists it.

    Args:
        file: name, size and checksum.
        spec: the index of its networks' spec.
        networks: how many it holds.
    """

    file: FileRecord
    spec: int
    networks: int


@dataclass(frozen=True)
class Manifest:
    """The contents of ``zoo.json``.

    Args:
        specs: the specs as plain dictionaries; reading them all takes long in large parks.
        recipe: how the networks were made.
        provenance: what made them.
        shards: the shards, in the order of the networks they hold.
        metadata: the table with one row a network.
        split_column: the metadata column that names each network's split.
        splits: how many networks each split has.
    """

    specs: Sequence[Mapping[str, Any]]
    recipe: dict[str, Any]
    provenance: dict[str, Any]
    shards: tuple[ShardRecord, ...]
    metadata: FileRecord
    split_column: str = "split"
    splits: dict[str, int] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Write the manifest as JSON text, one spec and one shard a line."""
        data = {
            "format": FORMAT,
            "version": VERSION,
            "networks": sum(shard.networks for shard in self.shards),
            "recipe": self.recipe,
            "provenance": self.provenance,
            "splits": {"column": self.split_column, "networks": self.splits},
            "metadata": _file_to_dict(self.metadata),
            "shards": [
                {**_file_to_dict(s.file), "spec": s.spec, "networks": s.networks}
                for s in self.shards
            ],
            "specs": list(self.specs),
        }
        return json_lines(data)

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read the manifest of a zoo.

        Raises:
            FileError: the folder is not a finished zoo, or its manifest is damaged.
        """
        if not (folder / MANIFEST).is_file():
            raise _not_a_zoo(folder)
        data = read_json(folder / MANIFEST)
        check_format(folder / MANIFEST, data)
        try:
            return cls._from_dict(data)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FileError(
                folder / MANIFEST,
                expected="the fields of a zoo's manifest",
                found=f"{type(error).__name__}: {error}",
            ) from error

    @classmethod
    def _from_dict(cls, data: dict[str, Any]) -> Manifest:
        specs = [_as(dict, spec) for spec in _as(list, data["specs"])]
        shards = tuple(_shard_from_dict(item, len(specs)) for item in _as(list, data["shards"]))
        networks = sum(shard.networks for shard in shards)
        if _count(data["networks"]) != networks:
            raise ValueError(f"{data['networks']} networks, but {networks} in its shards")
        splits = _as(dict, data["splits"])
        return cls(
            specs,
            _as(dict, data["recipe"]),
            _as(dict, data["provenance"]),
            shards,
            _file_from_dict(_as(dict, data["metadata"])),
            _as(str, splits["column"]),
            {name: _count(number) for name, number in _as(dict, splits["networks"]).items()},
        )


def read_spec(path: Path, data: Mapping[str, Any]) -> GraphSpec:
    """Read a spec of a manifest and check that shards can hold its tensors.

    Raises:
        FileError: it is not a spec.
    """
    try:
        spec = spec_from_dict(data)
        for parameter in spec_tensors(spec):
            if getattr(torch, parameter.dtype) not in DTYPES.values():
                raise ValueError(f"type {parameter.dtype} of {parameter.name}")
            for size in parameter.shape:
                _count(size)
    except (WeightspaceError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise FileError(path, expected="specs of networks", found=reason_of(error)) from error
    return spec


def spec_as_json(spec: GraphSpec) -> dict[str, Any]:
    """Write a spec as the dictionary that a manifest gives back."""
    return dict(as_json("spec", spec_to_dict(spec)))


def check_format(path: Path, data: Mapping[str, Any]) -> None:
    """Raise unless a file is of the format and version that this code reads.

    Raises:
        FileError: it is not.
    """
    found = (data.get("format"), data.get("version"))
    if found != (FORMAT, VERSION):
        raise FileError(
            path,
            expected=f"format {FORMAT!r}, version {VERSION}",
            found=f"format {found[0]!r}, version {found[1]!r}",
            hint="The folder was made by something else, or by a newer weightspace.",
        )


def json_lines(data: Mapping[str, Any]) -> bytes:
    """Write a JSON object so that people can read it: one key, or one list item, a line."""
    fields = []
    for key, value in data.items():
        if isinstance(value, list) and value:
            body = "[\n  " + ",\n  ".join(json.dumps(item) for item in value)
            body += "\n ]"
        else:
            body = json.dumps(value)
        fields.append(f"{json.dumps(key)}: {body}")
    return ("{\n " + ",\n ".join(fields) + "\n}\n").encode()


def differences(path: str, wanted: Any, found: Any) -> Iterator[str]:
    """Say where two JSON values differ, one place at a time."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key in sorted(set(wanted) | set(found)):
            yield from differences(f"{path}.{key}", wanted.get(key), found.get(key))
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for index, (a, b) in enumerate(zip(wanted, found, strict=True)):
            yield from differences(f"{path}[{index}]", a, b)
    elif wanted != found:
        yield f"{path} = {_brief(found)} instead of {_brief(wanted)}"


def sidecars(folder: Path) -> list[Path]:
    """The commit markers of an unfinished zoo's parts."""
    return sorted(folder.glob("part-*.json"))


def _not_a_zoo(folder: Path) -> FileError:
    if not (folder / PLAN).is_file():
        if folder.exists():
            found = "a folder without it" if folder.is_dir() else "a file"
            hint = "`weightspace zoo import DIR --out ZOO` makes one of a folder of checkpoints."
        else:
            found, hint = "no such folder", ""
        return FileError(
            folder, expected=f"a zoo's folder, with {MANIFEST}", found=found, hint=hint
        )
    return FileError(
        folder,
        expected="a finished zoo",
        found=f"an unfinished one with {len(sidecars(folder))} parts",
        hint="Run the command that makes it again: it goes on where it stopped.",
    )


def _file_to_dict(file: FileRecord) -> dict[str, Any]:
    return {"file": file.name, "bytes": file.size, "sha256": file.sha256}


def _file_from_dict(data: dict[str, Any]) -> FileRecord:
    name, digest = _as(str, data["file"]), _as(str, data["sha256"])
    if Path(name).name != name or name.startswith(".") or "\\" in name or "\0" in name:
        raise ValueError(f"{name!r} is not the name of a file in the folder")
    return FileRecord(name, _count(data["bytes"]), digest)


def _shard_from_dict(data: dict[str, Any], specs: int) -> ShardRecord:
    spec = _count(data["spec"])
    if spec >= specs:
        raise ValueError(f"a shard of spec {spec}, but {specs} specs")
    return ShardRecord(_file_from_dict(data), spec, _count(data["networks"]))


def _as(kind: type[T], value: Any) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"a {kind.__name__} was expected, not {str(value)[:80]}")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise TypeError(f"a count was expected, not {str(value)[:80]}")
    return value


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."
