"""Classes of networks: a column's names or numbers, and the index of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor

from weightspace.errors import DataError
from weightspace.tasks.labels import Labels, is_missing, require_plain

_MOST_FRACTIONS = 20
"""Different numbers that are not whole, beyond which a column is no column of classes."""

_FEW = 10
"""As many classes may be in any column, however small the zoo."""


class Classes(Labels):
    """The names of the classes and the index of each.

    Args:
        names: in order of their indices.

    >>> Classes.of([3, 1, 3]).names
    ('1', '3')
    """

    kind: ClassVar[str] = "classification"

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._places = {name: place for place, name in enumerate(self.names)}

    @classmethod
    def of(
        cls, values: Sequence[Any], *, column: str = "label", others: Sequence[Any] = ()
    ) -> Self:
        """Collect the classes of a column, numbers in their order.

        Raises:
            DataError: a label is missing, there are fewer than two classes, or nearly as many
                as networks.
        """
        together = [*values, *others]
        if any(map(is_missing, together)):
            raise DataError(
                f"column {column!r}",
                expected="a label for every network",
                found="missing ones",
                hint="Fill the column, or leave those networks out of the splits.",
            )
        require_plain(together, column)
        found = set(together)
        names = {_name(value) for value in found}
        if len(names) < 2:
            raise DataError(
                f"column {column!r}",
                expected="at least two classes",
                found=f"{', '.join(names) or 'no label'} alone",
                hint="There is nothing to learn in it; choose another column.",
            )
        _require_classes(found, len(together), column)
        return cls(sorted(names, key=lambda name: (not name.isdigit(), name.zfill(20))))

    @classmethod
    def from_meaning(cls, meaning: Mapping[str, Any]) -> Self:
        """Read the classes of a saved model."""
        return cls([str(name) for name in meaning["classes"]])

    def __len__(self) -> int:
        return len(self.names)

    @property
    def outputs(self) -> int:
        """One for each class."""
        return len(self)

    def encode(self, values: Sequence[Any]) -> Int[Tensor, " networks"]:
        """The class index of each label.

        Raises:
            DataError: a label is missing or not among the classes.
        """
        for label in set(values):
            if is_missing(label) or _name(label) not in self._places:
                raise DataError(
                    "labels",
                    expected=f"one of {', '.join(self.names)}",
                    found="a missing label" if is_missing(label) else repr(label),
                )
        return torch.tensor([self._places[_name(label)] for label in values], dtype=torch.long)

    def decode(
        self, outputs: Float[Tensor, "networks classes"]
    ) -> Float[Tensor, "networks classes"]:
        """The chance of each class."""
        return outputs.softmax(dim=1)

    def meaning(self) -> dict[str, Any]:
        """The classes in order."""
        return {"kind": self.kind, "classes": list(self.names)}


def _require_classes(found: set[Any], networks: int, column: str) -> None:
    """Refuse columns of measured numbers and of names that each network has for itself."""
    numbers = all(isinstance(value, int | float) for value in found)
    fractions = numbers and any(float(value) != int(value) for value in found)
    most = max(_FEW, 3 * networks // 4)
    if len(found) <= (min(most, _MOST_FRACTIONS) if fractions else most):
        return
    raise DataError(
        f"column {column!r}",
        expected="classes that many networks share",
        found=f"{len(found)} different {'numbers' if numbers else 'values'} in {networks} networks",
        hint="Learn them as numbers: --task regress."
        if numbers
        else "Choose a column of classes; `weightspace zoo info` lists the columns.",
    )


def _name(value: Any) -> str:
    """A label as text; whole numbers without a point, whatever their type."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
