"""Dividing a finished zoo into splits, as a zoo of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weightspace.errors import DataError, similar_name
from weightspace.zoo.deriving import Borrowed, Content, derive
from weightspace.zoo.splits import split_by_group
from weightspace.zoo.store import Zoo
from weightspace.zoo.store_manifest import MANIFEST, Manifest
from weightspace.zoo.store_rows import SPLIT, split_names

SOURCE, DIGEST = "source", "sha256"


def split_zoo(
    zoo: Zoo,
    out: Path | str,
    *,
    shares: Mapping[str, float],
    by: str | None = None,
    balance: str | None = None,
    seed: int = 0,
) -> Zoo:
    """Divide a zoo at random, so that networks of one source are in one split.

    The zoo itself is not changed: the division is a new zoo with the same shards. Networks
    with the same weights, where the zoo knows them, count as one source.

    Args:
        zoo: what to divide.
        out: the folder of the new zoo.
        shares: each split's share of the networks; they sum to one.
        by: the column of sources; ``source`` if there is one, else every network for itself.
        balance: a column whose values are to be equally frequent in every split.
        seed: of the shuffling.

    Raises:
        DataError: there is no such column, or there are too few sources.
        FileError: ``out`` holds something else.
    """
    table = zoo.metadata
    groups = _groups(zoo, by)
    labels = None if balance is None else _column(zoo, balance)
    if labels is not None:
        _check_labels(groups, labels, balance or "")
    splits = split_by_group(groups, shares, seed, labels=labels)
    names = split_names({name: list(networks) for name, networks in splits.items()}, len(zoo))
    manifest = Manifest.read(zoo.path)
    return derive(
        Path(out),
        Content(manifest.specs, _shards(zoo, manifest), _with_split(table, manifest, names)),
        recipe={
            "name": "split",
            "by": by,
            "balance": balance,
            "shares": dict(shares),
            "seed": seed,
            "zoo": origin(zoo),
            "recipe": zoo.recipe,
        },
        provenance=zoo.provenance,
    )


def origin(zoo: Zoo) -> dict[str, Any]:
    """Which zoo it is: its folder's name and the digest of its manifest."""
    content = (zoo.path / MANIFEST).read_bytes()
    return {"name": zoo.path.resolve().name, "sha256": hashlib.sha256(content).hexdigest()}


def _shards(zoo: Zoo, manifest: Manifest) -> list[Borrowed]:
    return [Borrowed(zoo.path, shard, shard.spec) for shard in manifest.shards]


def _with_split(table: Any, manifest: Manifest, names: Sequence[str | None]) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    old = {SPLIT, manifest.split_column} if manifest.splits else {SPLIT}
    table = table.drop_columns([name for name in table.column_names if name in old])
    return table.append_column(SPLIT, pa.array(names, type=pa.string()))


def _column(zoo: Zoo, name: str) -> list[Hashable]:
    if name not in zoo.metadata.column_names:
        raise DataError(
            f"{zoo.path}, column {name!r}",
            expected=f"one of {', '.join(zoo.metadata.column_names)}",
            found="a name that the zoo does not have",
            hint=similar_name(name, zoo.metadata.column_names),
        )
    values: list[Hashable] = zoo.metadata.column(name).to_pylist()
    return values


def _groups(zoo: Zoo, by: str | None) -> list[Hashable]:
    """Each network's source, joined where different sources have the same weights."""
    names = zoo.metadata.column_names
    if by is not None or SOURCE in names:
        groups = _column(zoo, by or SOURCE)
    else:
        groups = list(range(len(zoo)))
    missing = sum(group is None for group in groups)
    if missing:
        raise DataError(
            f"{zoo.path}, column {by or SOURCE!r}",
            expected="a source for each network",
            found=f"{missing} without one",
            hint="Choose another column with --by.",
        )
    return groups if DIGEST not in names else _joined(groups, _column(zoo, DIGEST))


def _joined(groups: Sequence[Hashable], digests: Sequence[Hashable]) -> list[Hashable]:
    """Groups that share a digest become one, named by the first of them."""
    from scipy.sparse import coo_array  # noqa: PLC0415 (only dividing needs it)
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415

    places = {group: place for place, group in enumerate(dict.fromkeys(groups))}
    first: dict[Hashable, int] = {}
    pairs = []
    for group, digest in zip(groups, digests, strict=True):
        if digest is not None:
            pairs.append((places[group], first.setdefault(digest, places[group])))
    if not pairs:
        return list(groups)
    ends = np.array(pairs, dtype=np.int64).T
    links = coo_array((np.ones(len(pairs)), (ends[0], ends[1])), shape=(len(places),) * 2)
    labels = connected_components(links, directed=False)[1].tolist()
    return [labels[places[group]] for group in groups]


def _check_labels(groups: Sequence[Hashable], labels: Sequence[Hashable], name: str) -> None:
    found: dict[Hashable, Hashable] = {}
    for group, label in zip(groups, labels, strict=True):
        if found.setdefault(group, label) != label:
            raise DataError(
                f"column {name!r}",
                expected="one value for all networks of a source, to balance splits by it",
                found=f"{found[group]!r} and {label!r} for one source",
            )
