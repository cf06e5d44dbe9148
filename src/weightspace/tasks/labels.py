"""Labels of networks: from a zoo's metadata to class indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from weightspace.errors import DataError
from weightspace.zoo import Zoo


class Classes:
    """The names of the classes and the index of each.

    Args:
        names: in order of their indices.

    >>> Classes.of([3, 1, 3]).names
    ('1', '3')
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._places = {name: place for place, name in enumerate(self.names)}

    @classmethod
    def of(cls, labels: Sequence[Any]) -> Classes:
        """Collect the classes of a column, numbers in their order.

        Raises:
            DataError: a label is missing, or there are fewer than two classes.
        """
        values = set(labels)
        if any(_missing(value) for value in values):
            raise DataError(
                "labels",
                expected="a label for every network",
                found="missing ones",
                hint="Fill the column, or leave those networks out of the splits.",
            )
        if len(values) < 2:
            raise DataError("labels", expected="at least two classes", found=f"{sorted(values)}")
        names = [_name(value) for value in values]
        return cls(sorted(names, key=lambda name: (not name.isdigit(), name.zfill(20))))

    def __len__(self) -> int:
        return len(self.names)

    def indices(self, labels: Sequence[Any]) -> Int[Tensor, " networks"]:
        """The class index of each label.

        Raises:
            DataError: a label is missing or not among the classes.
        """
        for label in set(labels):
            if _missing(label) or _name(label) not in self._places:
                raise DataError(
                    "labels",
                    expected=f"one of {', '.join(self.names)}",
                    found="a missing label" if _missing(label) else repr(label),
                )
        return torch.tensor([self._places[_name(label)] for label in labels], dtype=torch.long)


def column_of(zoo: Zoo, column: str, networks: Sequence[int]) -> list[Any]:
    """The values of a metadata column for some networks, as plain Python objects."""
    return list(zoo.column(column)[list(networks)].tolist())


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _name(value: Any) -> str:
    """A label as text; whole numbers without a point, whatever their type."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
