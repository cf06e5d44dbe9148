"""Zoos made of other zoos' shards: the weights are shared, the rows are new.

A finished zoo is never changed, so that what was trained on it can be told from its name.
Another division of it, or several zoos together, is a zoo of its own; its shards are links
to the same files where the file system has them, and copies otherwise.
"""

from __future__ import annotations

import io
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from weightspace.errors import FileError, reason_of
from weightspace.zoo.progress import network_progress
from weightspace.zoo.store import Zoo
from weightspace.zoo.store_files import (
    FileRecord,
    as_json,
    read_json,
    temporaries,
    write_file,
)
from weightspace.zoo.store_manifest import (
    FORMAT,
    MANIFEST,
    METADATA,
    PLAN,
    VERSION,
    Manifest,
    ShardRecord,
    json_lines,
)
from weightspace.zoo.store_parts import shard_name
from weightspace.zoo.store_rows import SPLIT, count_splits

if TYPE_CHECKING:
    import pyarrow as pa


class Borrowed(NamedTuple):
    """A shard of another zoo, with the index of its spec in the new one."""

    folder: Path
    shard: ShardRecord
    spec: int


class Content(NamedTuple):
    """What a zoo is to hold: specs as plain dictionaries, shards, and the table of rows."""

    specs: Sequence[Mapping[str, Any]]
    shards: Sequence[Borrowed]
    table: pa.Table


def derive(
    out: Path, content: Content, *, recipe: Mapping[str, Any], provenance: Mapping[str, Any]
) -> Zoo:
    """Make a zoo of other zoos' shards; interrupted, the same call goes on.

    Args:
        out: its folder.
        content: what it holds; a column ``split`` of the table gives the splits.
        recipe: what the content depends on; a finished zoo of the same recipe is kept.
        provenance: what there is to say of how it was made.

    Raises:
        FileError: the folder holds something else, or a shard is missing or truncated.
    """
    made: dict[str, Any] = as_json("recipe", recipe)
    said: dict[str, Any] = as_json("provenance", provenance)
    if _begin(out, made):
        shards = _take_shards(out, content.shards)
        table = content.table
        named = SPLIT in table.column_names
        manifest = Manifest(
            content.specs,
            made,
            said,
            shards,
            write_file(out / METADATA, table_bytes(table)),
            SPLIT,
            count_splits(table, SPLIT, ()) if named else {},
        )
        write_file(out / MANIFEST, manifest.to_bytes())
    for leftover in [*temporaries(out), out / PLAN]:
        leftover.unlink(missing_ok=True)
    return Zoo.open(out)


def share_file(source: Path, target: Path) -> None:
    """Put a file in another place: a link to the same bytes, or a copy, all or nothing.

    Raises:
        FileError: it cannot be written.
    """
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        try:
            os.link(source.resolve(), temporary)  # a cache may hold links itself
        except OSError:  # another file system, or one without links
            shutil.copyfile(source, temporary)
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise FileError(
            target, expected="a place that can be written", found=reason_of(error)
        ) from error


def table_bytes(table: pa.Table) -> bytes:
    """A table as the contents of a parquet file."""
    import pyarrow.parquet as pq  # noqa: PLC0415 (only writing needs it)

    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


def _begin(out: Path, recipe: dict[str, Any]) -> bool:
    """Make the folder and its plan; False if the zoo is finished already."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        present = {path.name for path in out.iterdir()} - {p.name for p in temporaries(out)}
    except OSError as error:
        raise FileError(
            out, expected="a folder that can be made", found=reason_of(error)
        ) from error
    for name in (MANIFEST, PLAN):
        if name in present:
            if read_json(out / name).get("recipe") != recipe:
                raise FileError(
                    out,
                    expected="an empty folder, or the same zoo to continue",
                    found="another zoo",
                    hint="Choose another folder, or delete this one.",
                )
            return name == PLAN
    if present:
        raise FileError(
            out,
            expected="an empty folder",
            found=f"one with {', '.join(sorted(present)[:3])}",
            hint="Choose another folder.",
        )
    plan = {"format": FORMAT, "version": VERSION, "recipe": recipe}
    write_file(out / PLAN, json_lines(plan))
    return True


def _take_shards(out: Path, shards: Sequence[Borrowed]) -> tuple[ShardRecord, ...]:
    taken = []
    with network_progress() as progress:
        bar = progress.add_task("taking shards", total=sum(s.shard.networks for s in shards))
        for number, (folder, shard, spec) in enumerate(shards):
            shard.file.require_size(folder)
            name = shard_name(number)
            if not (out / name).is_file():
                share_file(folder / shard.file.name, out / name)
            file = FileRecord(name, shard.file.size, shard.file.sha256)
            taken.append(ShardRecord(file, spec, shard.networks))
            progress.advance(bar, shard.networks)
    return tuple(taken)
