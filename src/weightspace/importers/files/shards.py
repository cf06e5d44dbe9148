"""Checkpoints cut into several files, listed in an index."""

from __future__ import annotations

from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from torch import Tensor

from weightspace.errors import FileError
from weightspace.importers.files.contents import Checkpoint, Format
from weightspace.importers.files.magic import kind_of, parse_json
from weightspace.importers.files.safetensors_file import load_safetensors
from weightspace.importers.files.torch_file import read_legacy_torch, read_torch

LONGEST_INDEX = 256 << 20


def read_index(path: Path) -> Checkpoint:
    """Read the shards that an index (``*.safetensors.index.json``, ``*.bin.index.json``) lists.

    Raises:
        FileError: it is not an index, a shard is missing or lies in another folder, or a tensor
            is not where the index says.
    """
    if path.stat().st_size > LONGEST_INDEX:
        raise FileError(path, expected="an index of shards", found="a text of more than 256 MB")
    index = parse_json(path, path.read_bytes())
    places = index.get("weight_map")
    if not isinstance(places, dict) or not places:
        raise FileError(
            path,
            expected="an index of shards with a weight_map",
            found=f"JSON with {', '.join(list(index)[:5]) or 'nothing'}",
        )
    shards = {name: _load_shard(path, name) for name in sorted(set(map(str, places.values())))}
    tensors: dict[str, Tensor] = {}
    for name, shard in places.items():
        if name not in shards[str(shard)][0]:
            raise FileError(path, expected=f"tensor {name!r} in {shard}", found="none there")
        tensors[name] = shards[str(shard)][0][name]
    formats: set[Format] = {format for _, format in shards.values()}
    metadata = index.get("metadata")
    config: dict[str, Any] = metadata if isinstance(metadata, dict) else {}
    kind: Format = "sharded-safetensors" if formats == {"safetensors"} else "sharded-torch"
    return Checkpoint(path, kind, tensors, config=config)


def _load_shard(index: Path, name: str) -> tuple[dict[str, Tensor], Format]:
    """Read a shard, which must lie beside its index."""
    if name != PurePosixPath(name).name or name != PureWindowsPath(name).name or name == "..":
        raise FileError(
            index, expected="shards in the index's own folder", found=f"a shard {name!r}"
        )
    path = index.parent / name
    if not path.is_file():
        raise FileError(
            index,
            expected=f"a shard {name} beside it",
            found="none",
            hint="Download every shard that the index lists.",
        )
    kind = kind_of(path)
    if kind == "safetensors":
        return load_safetensors(path)[0], "safetensors"
    if kind in ("torch", "torch-legacy"):
        return (read_torch if kind == "torch" else read_legacy_torch)(path).original, "torch"
    raise FileError(path, expected="a shard of torch or safetensors", found=f"a {kind} file")
