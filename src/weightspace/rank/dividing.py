"""Splits of a zoo that has none."""

from __future__ import annotations

import logging

from weightspace.rank.examples import sources_of
from weightspace.rank.folds import group_numbers
from weightspace.tasks.labelled import LabelledNetworks
from weightspace.zoo import Zoo
from weightspace.zoo.splits import split_by_group

SHARES = {"train": 0.7, "val": 0.15, "test": 0.15}
_LOG = logging.getLogger(__name__)


def own_splits(zoo: Zoo, target: str, *, by: str | None, seed: int) -> dict[str, list[int]]:
    """Divide the labelled networks of a zoo by source.

    Args:
        zoo: the networks.
        target: the column of labels.
        by: the column of sources; ``source`` or ``model`` if there is one, else every
            network for itself.
        seed: of the division.

    Raises:
        DataError: a column is missing, or there are too few sources.
    """
    labelled = LabelledNetworks.read(zoo, list(range(len(zoo))), target, name="all")
    groups = group_numbers(sources_of(zoo, labelled.rows, by))
    places = split_by_group(groups.tolist(), SHARES, seed)
    splits = {name: [labelled.rows[i] for i in chosen] for name, chosen in places.items()}
    shown = ", ".join(f"{name} {len(rows)}" for name, rows in splits.items())
    _LOG.warning("%s has no splits; divided by source: %s", zoo.path, shown)
    return splits
