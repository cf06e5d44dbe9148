"""Making a zoo part by part, so that it can be interrupted at any moment."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from weightspace import __version__
from weightspace.errors import DataError, FileError, counted, reason_of
from weightspace.graph import GraphSpec, State
from weightspace.zoo.shards import shard_bytes
from weightspace.zoo.store import Zoo
from weightspace.zoo.store_files import (
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
    check_format,
    differences,
    json_lines,
    sidecars,
    spec_as_json,
)
from weightspace.zoo.store_parts import marker_name, read_part, read_parts, shard_name
from weightspace.zoo.store_rows import SPLIT, count_splits, plain_row, split_names, table_of

_log = logging.getLogger(__name__)


class ZooWriter:
    """Writes a zoo, or goes on with one that was interrupted.

    A part is a shard of networks and their rows of metadata. It counts from the moment its
    commit marker is written, after its shard; parts cut short are made again. Parts may be
    written in any order and by several processes, each with a writer of its own; networks
    are numbered in the order of parts. The folder is a zoo once :meth:`finish` has written
    ``zoo.json``. A zoo that was interrupted and resumed has the same files, byte for byte,
    as one that was not.

    Args:
        path: the folder; made if it is not there.
        specs: the specs of the networks, all different.
        recipe: how the networks are made: anything that JSON can hold. A folder is only
            continued by the same recipe and specs.
        provenance: what made them, such as versions and seeds; the first writer's stays.
            The versions of weightspace and torch are added.
        parts: how many parts there will be, if known, so that a zoo cannot be finished
            with the last ones missing.

    Raises:
        FileError: the folder holds something else, or a zoo of another recipe.
        DataError: specs are doubled, or the recipe is not plain data.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        specs: Sequence[GraphSpec],
        recipe: dict[str, Any],
        provenance: dict[str, Any] | None = None,
        parts: int | None = None,
    ) -> None:
        self.path = Path(path)
        self.specs = tuple(specs)
        self.parts = parts
        self._check_specs()
        versions = {"weightspace": __version__, "torch": str(torch.__version__)}
        wanted = {
            "format": FORMAT,
            "version": VERSION,
            "recipe": as_json("recipe", recipe),
            "provenance": as_json("provenance", {**versions, **(provenance or {})}),
            "specs": [spec_as_json(spec) for spec in self.specs],
        }
        self._plan = self._begin(wanted)

    def has_part(self, part: int) -> bool:
        """Whether a part is complete, so that it need not be made."""
        if self._finished:
            return (self.path / shard_name(part)).is_file()
        return read_part(self.path, part) is not None

    def write_part(
        self,
        part: int,
        stacked: State,
        rows: Sequence[Mapping[str, Any]],
        *,
        spec: int = 0,
    ) -> None:
        """Write networks of one spec; nothing happens if the part is already complete.

        Args:
            part: its number, from 0.
            stacked: each tensor of the state dict, ``[networks, *shape]``.
            rows: a dictionary of labels, metrics and sources for each network.
            spec: the index of the networks' spec.

        Raises:
            StateError: the tensors do not belong to the spec.
            DataError: a row holds what a table cannot, or their number is another.
            FileError: the disk is full, or the zoo is finished without this part.
        """
        self._check_part(part, spec)
        if self.has_part(part):
            return
        if self._finished:
            raise FileError(
                self.path,
                expected="an unfinished zoo",
                found=f"a finished one without part {part}",
                hint="A finished zoo is not changed: choose another folder.",
            )
        content = shard_bytes(self.specs[spec], stacked)
        networks = next(iter(stacked.values())).shape[0]
        if len(rows) != networks:
            raise DataError(f"part {part}", expected=f"{networks} rows", found=str(len(rows)))
        plain = [plain_row(row) for row in rows]
        file = write_file(self.path / shard_name(part), content)
        marker = {"spec": spec, "networks": networks, "bytes": file.size, "sha256": file.sha256}
        text = json.dumps({**marker, "rows": plain}).encode()
        write_file(self.path / marker_name(part), text)

    def finish(
        self,
        *,
        splits: Mapping[str, Sequence[int]] | None = None,
        split_column: str | None = None,
    ) -> Zoo:
        """Join the parts into a zoo. It may be called again, also after a kill within it.

        Args:
            splits: the networks of each split; no network may be in two of them.
            split_column: the column of the rows that names each network's split, instead.

        Raises:
            FileError: parts are missing, or the disk is full.
            DataError: splits overlap, or columns mix types.
        """
        if not self._finished:
            self._join(splits, split_column)
        for leftover in [*sidecars(self.path), *temporaries(self.path), self.path / PLAN]:
            leftover.unlink(missing_ok=True)
        zoo = Zoo.open(self.path)
        self._check_splits(zoo, splits)
        return zoo

    # -- beginning -----------------------------------------------------------------------

    def _check_specs(self) -> None:
        prints = [spec.fingerprint for spec in self.specs]
        if not prints or len(set(prints)) != len(prints):
            raise DataError(
                "specs",
                expected="at least one spec, none of them twice",
                found=f"{len(prints)} specs, {len(set(prints))} of them different",
            )

    def _begin(self, wanted: dict[str, Any]) -> dict[str, Any]:
        """Make the folder and its plan, or check that the folder goes with the recipe."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            # Listed before looking for the plan: another writer may just be starting.
            present = set(self.path.iterdir()) - set(temporaries(self.path))
        except OSError as error:
            raise FileError(
                self.path, expected="a folder that can be made", found=reason_of(error)
            ) from error
        for name in (MANIFEST, PLAN):
            if (self.path / name).is_file():
                found = read_json(self.path / name)
                check_format(self.path / name, found)
                self._check_same(wanted, found)
                return found
        if present:
            raise FileError(
                self.path,
                expected="an empty folder, or a zoo to continue",
                found=f"a folder with {', '.join(sorted(p.name for p in present)[:3])}",
                hint="Choose another folder.",
            )
        write_file(self.path / PLAN, json_lines(wanted))
        return wanted

    def _check_same(self, wanted: dict[str, Any], found: dict[str, Any]) -> None:
        for key in ("recipe", "specs"):
            differing = list(differences(key, wanted[key], found.get(key)))
            if differing:
                more = f" and {len(differing) - 3} more" if len(differing) > 3 else ""
                raise FileError(
                    self.path,
                    expected="a zoo of the same recipe and specs",
                    found="; ".join(differing[:3]) + more,
                    hint="Choose another folder, or delete this one.",
                )

    @property
    def _finished(self) -> bool:
        return (self.path / MANIFEST).is_file()

    # -- parts ---------------------------------------------------------------------------

    def _check_part(self, part: int, spec: int) -> None:
        limit = self.parts if self.parts is not None else 10**9
        if not 0 <= part < limit:
            raise DataError("part", expected=f"a number from 0 to {limit - 1}", found=str(part))
        if not 0 <= spec < len(self.specs):
            raise DataError(
                "spec", expected=f"a number from 0 to {len(self.specs) - 1}", found=str(spec)
            )

    # -- joining -------------------------------------------------------------------------

    def _join(self, splits: Mapping[str, Sequence[int]] | None, split_column: str | None) -> None:
        if splits is not None and split_column is not None:
            raise DataError("splits", expected="splits or a split column", found="both")
        parts = read_parts(self.path, self.parts)
        shards = tuple(part.shard for part in parts)
        rows = [row for part in parts for row in part.rows]
        _log.info("joining %d parts, %d networks", len(parts), len(rows))
        specs = np.repeat([s.spec for s in shards], [s.networks for s in shards])
        names = None if splits is None else split_names(splits, len(rows))
        table = table_of(rows, specs, names)
        column = split_column if splits is None else SPLIT
        manifest = Manifest(
            self._plan["specs"],
            self._plan["recipe"],
            self._plan["provenance"],
            shards,
            write_file(self.path / METADATA, _parquet(table)),
            column or SPLIT,
            {} if column is None else count_splits(table, column, splits or ()),
        )
        write_file(self.path / MANIFEST, manifest.to_bytes())

    def _check_splits(self, zoo: Zoo, splits: Mapping[str, Sequence[int]] | None) -> None:
        """A zoo that was finished before must not be taken for one with other splits."""
        for name, indices in (splits or {}).items():
            if name not in zoo.splits or not np.array_equal(
                zoo.split(name), np.unique(np.asarray(indices, dtype=np.int64))
            ):
                raise FileError(
                    self.path,
                    expected=f"split {name!r} with {counted(len(indices), 'network')}, as given",
                    found=f"a finished zoo with splits {zoo.splits}",
                    hint="A finished zoo is not changed: choose another folder.",
                )


def _parquet(table: Any) -> bytes:
    import pyarrow.parquet as pq  # noqa: PLC0415 (only finishing needs it)

    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()
