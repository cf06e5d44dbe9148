"""Networks with measured numbers, as candidates learn from them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from weightspace.rank.features import features_of_all
from weightspace.rank.folds import Integers, group_numbers
from weightspace.tasks.batches import network_batches
from weightspace.tasks.labelled import LabelledNetworks
from weightspace.tasks.labels import is_missing
from weightspace.tasks.quantities import Quantity
from weightspace.zoo import Zoo

Array = npt.NDArray[np.float64]
SOURCES = ("source", "model")
"""Columns that name the source of a network, as imports and recipes call it."""
DIGEST = "sha256"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Examples:
    """Networks, what was measured of each, and which have one source.

    Args:
        features: ``[networks, features]``.
        values: ``[networks]``.
        groups: the source of each, by number.
        zoo: where the networks are, for candidates that read weights; or None.
        rows: their numbers in it.
        target: what the values are called.
    """

    features: Array
    values: Array
    groups: Integers
    zoo: Zoo | None = None
    rows: Integers | None = None
    target: str = "value"

    def __len__(self) -> int:
        return len(self.values)

    @property
    def sources(self) -> int:
        """How many independent networks there are."""
        return int(self.groups.max()) + 1

    @classmethod
    def of_zoo(
        cls,
        zoo: Zoo,
        target: str,
        *,
        by: str | None = None,
        rows: Sequence[int] | None = None,
        name: str = "labelled",
    ) -> Examples:
        """Read the labelled networks of a zoo.

        Networks without a label, and those marked as diverged or with weights that are not
        finite, are left out.

        Args:
            zoo: the networks.
            target: the column of what was measured.
            by: the column of sources; ``source`` or ``model`` if there is one, else
                every network for itself.
            rows: which networks; all if not given.
            name: of these networks, for messages.

        Raises:
            DataError: a column is missing, is constant or no numbers.
        """
        chosen = range(len(zoo)) if rows is None else rows
        labelled = LabelledNetworks.read(zoo, list(chosen), target, name=name)
        Quantity.of(labelled.values, column=target)
        found = np.array(labelled.rows, dtype=np.int64)
        groups = group_numbers(sources_of(zoo, labelled.rows, by))
        features = features_of_all(network_batches(zoo, labelled.rows, 256))
        finite = np.isfinite(features).all(axis=1)
        if not finite.all():
            _LOG.warning("%s: left out %d with weights that are not finite", name, (~finite).sum())
        values = np.array(labelled.values, dtype=np.float64)[finite]
        groups = np.unique(groups[finite], return_inverse=True)[1]
        return cls(features[finite], values, groups, zoo, found[finite], target)


def sources_of(zoo: Zoo, rows: Sequence[int], by: str | None) -> list[Any]:
    """The source of each network; networks with the same weights have one."""
    names = zoo.metadata.column_names
    column = by or next((name for name in SOURCES if name in names), None)
    if column is None:
        return [None] * len(rows)
    values = zoo.column(column)[list(rows)].tolist()
    found = [None if is_missing(value) else value for value in values]
    if by is None and DIGEST in names:
        return _joined(found, zoo.column(DIGEST)[list(rows)].tolist())
    return found


def _joined(sources: list[Any], digests: list[Any]) -> list[Any]:
    """Sources that share a network with the same weights count as one."""
    import networkx as nx  # noqa: PLC0415

    graph = nx.Graph()
    keys = [("alone", i) if s in (None, "") else ("source", s) for i, s in enumerate(sources)]
    graph.add_nodes_from(keys)
    graph.add_edges_from(
        (key, ("weights", digest)) for key, digest in zip(keys, digests, strict=True) if digest
    )
    number = {node: i for i, part in enumerate(nx.connected_components(graph)) for node in part}
    return [number[key] for key in keys]
