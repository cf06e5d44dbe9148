"""The networks of a zoo that have a label."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from weightspace.errors import DataError
from weightspace.tasks.labels import is_missing
from weightspace.zoo import Zoo

_LOG = logging.getLogger(__name__)
DIVERGED = "diverged"
"""The column by which recipes mark networks whose training diverged."""


@dataclass(frozen=True)
class LabelledNetworks:
    """Some networks of a zoo and their labels; those without one are left out.

    Args:
        rows: the networks' numbers in the zoo.
        values: the label of each, as a plain value.
        unlabelled: how many were left out because they have no label.
        diverged: how many were left out because their training diverged.
    """

    rows: list[int]
    values: list[Any]
    unlabelled: int = 0
    diverged: int = 0

    @classmethod
    def read(
        cls,
        zoo: Zoo,
        rows: Sequence[int] | npt.NDArray[np.integer[Any]],
        column: str,
        *,
        name: str,
    ) -> LabelledNetworks:
        """Read a column for some networks of a zoo.

        Args:
            zoo: the networks.
            rows: their numbers.
            column: the metadata column with the labels.
            name: of these networks, for messages.

        Raises:
            DataError: there is no such column, or no network has a label.
        """
        given = [int(row) for row in rows]
        values = zoo.column(column)[given].tolist()
        failed = _diverged(zoo, given)
        kept = [
            (row, value)
            for row, value, gone in zip(given, values, failed, strict=True)
            if not gone and not is_missing(value)
        ]
        found = cls(
            [row for row, _ in kept],
            [value for _, value in kept],
            unlabelled=sum(
                is_missing(value) for value, gone in zip(values, failed, strict=True) if not gone
            ),
            diverged=sum(failed),
        )
        if not kept:
            raise DataError(
                f"{zoo.path}, {name} networks",
                expected=f"networks with a label in {column!r}",
                found=f"none of {len(given)}" if given else "no networks",
            )
        found.report(name)
        return found

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def left_out(self) -> int:
        """How many networks were left out."""
        return self.unlabelled + self.diverged

    def report(self, name: str) -> None:
        """Log what was left out, if anything was."""
        reasons = [
            f"{count} {why}"
            for count, why in ((self.unlabelled, "without a label"), (self.diverged, "diverged"))
            if count
        ]
        if reasons:
            total = len(self) + self.left_out
            _LOG.warning("%s: left out %s of %d networks", name, " and ".join(reasons), total)


def _diverged(zoo: Zoo, rows: Sequence[int]) -> list[bool]:
    """Which networks are marked as diverged; none where the zoo does not say."""
    if DIVERGED not in zoo.metadata.column_names:
        return [False] * len(rows)
    return [value is True or value == 1 for value in zoo.column(DIVERGED)[list(rows)].tolist()]
