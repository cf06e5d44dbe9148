"""Several zoos as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weightspace.errors import DataError
from weightspace.zoo.deriving import Borrowed, Content, derive
from weightspace.zoo.importing.tables import settle
from weightspace.zoo.splits import crossing_groups
from weightspace.zoo.splitting import DIGEST, SOURCE, origin
from weightspace.zoo.store import Zoo
from weightspace.zoo.store_manifest import Manifest, read_spec
from weightspace.zoo.store_rows import RESERVED, SPLIT, table_of

ORIGIN = "zoo"
"""The column that names the zoo which a network comes from."""


def merge_zoos(zoos: Sequence[Zoo], out: Path | str) -> tuple[Zoo, list[str]]:
    """Put several zoos together; they are not changed.

    Networks of the same architecture share a spec. Each network keeps its row and its split;
    a column that only some zoos have is null in the others. The column ``zoo`` names the zoo
    that a network comes from.

    Args:
        zoos: in the order in which their networks will stand.
        out: the folder of the new zoo.

    Returns:
        The zoo, and what there is to say: networks that are in it twice, sources with
        networks in several splits, columns that changed their type.

    Raises:
        DataError: there are fewer than two zoos, or one is given twice.
        FileError: ``out`` holds something else.
    """
    paths = [zoo.path.resolve() for zoo in zoos]
    if len(zoos) < 2 or len(set(paths)) < len(paths):
        raise DataError(
            "zoos",
            expected="at least two different zoos",
            found=", ".join(map(str, paths)) or "none",
        )
    manifests = [Manifest.read(zoo.path) for zoo in zoos]
    rows = [
        row
        for name, zoo, manifest in zip(_names(paths), zoos, manifests, strict=True)
        for row in _rows(name, zoo, manifest)
    ]
    notes = _notes(zoos, manifests, rows)
    recipe = {"name": "merge", "zoos": [{**origin(zoo), "recipe": zoo.recipe} for zoo in zoos]}
    provenance = {"zoos": [zoo.provenance for zoo in zoos], "notes": notes}
    content = _content(zoos, manifests, rows)
    return derive(Path(out), content, recipe=recipe, provenance=provenance), notes


def _content(
    zoos: Sequence[Zoo], manifests: Sequence[Manifest], rows: Sequence[dict[str, Any]]
) -> Content:
    """All shards in order, each with the place of its spec among all specs."""
    specs, places = _specs(zoos, manifests)
    shards = [
        Borrowed(zoo.path, shard, places[number][shard.spec])
        for number, (zoo, manifest) in enumerate(zip(zoos, manifests, strict=True))
        for shard in manifest.shards
    ]
    indices = np.repeat(
        np.array([s.spec for s in shards], dtype=np.int64), [s.shard.networks for s in shards]
    )
    return Content(specs, shards, table_of(rows, indices, None))


def _specs(
    zoos: Sequence[Zoo], manifests: Sequence[Manifest]
) -> tuple[list[dict[str, Any]], list[list[int]]]:
    """All different specs, and for each zoo the place of each of its specs among them."""
    found: dict[str, int] = {}
    specs: list[dict[str, Any]] = []
    places: list[list[int]] = []
    for zoo, manifest in zip(zoos, manifests, strict=True):
        own = []
        for data in manifest.specs:
            fingerprint = read_spec(zoo.path, data).fingerprint
            if fingerprint not in found:
                found[fingerprint] = len(specs)
                specs.append(dict(data))
            own.append(found[fingerprint])
        places.append(own)
    return specs, places


def _rows(name: str, zoo: Zoo, manifest: Manifest) -> list[dict[str, Any]]:
    """A zoo's rows, with its own name, and with its splits in the column that all have."""
    rows = []
    for row in zoo.metadata.to_pylist():
        kept = {k: v for k, v in row.items() if k not in RESERVED and k != ORIGIN}
        if manifest.splits:
            kept[SPLIT] = kept.pop(manifest.split_column)
        before = row.get(ORIGIN)
        rows.append({ORIGIN: name if before is None else f"{name}/{before}", **kept})
    return rows


def _names(paths: Sequence[Path]) -> list[str]:
    """The folders' names, made different where they are the same."""
    counts = Counter(path.name for path in paths)
    return [path.name if counts[path.name] == 1 else str(path) for path in paths]


def _notes(
    zoos: Sequence[Zoo], manifests: Sequence[Manifest], rows: list[dict[str, Any]]
) -> list[str]:
    notes = []
    mixed = settle(rows)
    if mixed:
        notes.append(f"columns with values of several types became text: {', '.join(mixed)}")
    shards = Counter(shard.file.sha256 for m in manifests for shard in m.shards)
    digests = Counter(row[DIGEST] for row in rows if row.get(DIGEST) is not None)
    doubled = sum(count - 1 for count in digests.values())
    if doubled:
        notes.append(f"{doubled:,} networks have the weights of an earlier one (column {DIGEST})")
    elif any(count > 1 for count in shards.values()):
        notes.append("some shards are the same in several zoos: their networks are there twice")
    without = [zoo.path.name for zoo, m in zip(zoos, manifests, strict=True) if not m.splits]
    if without and len(without) < len(zoos):
        notes.append(f"without splits, so their networks are in none: {', '.join(without)}")
    crossing = crossing_groups([row.get(SOURCE) for row in rows], [row.get(SPLIT) for row in rows])
    if crossing:
        notes.append(
            f"{len(crossing):,} sources have networks in several splits, such as {crossing[0]}: "
            "divide the zoo anew with 'weightspace zoo split'"
        )
    return notes
