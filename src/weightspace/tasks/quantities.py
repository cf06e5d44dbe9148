"""Quantities of networks: numbers of a column, as a model learns them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.errors import DataError
from weightspace.tasks.labels import Labels, is_missing, require_plain


class Quantity(Labels):
    """A number for each network, standardised by the training networks'.

    Args:
        column: the name of what is measured.
        mean: of the training networks.
        deviation: of the training networks.

    >>> quantity = Quantity.of([10.0, 20.0, 30.0], column="loss")
    >>> quantity.encode([20.0, 30.0])
    tensor([0.0000, 1.2247])
    >>> quantity.decode(torch.tensor([[0.0], [1.0]])).round(decimals=3)
    tensor([20.0000, 28.1650], dtype=torch.float64)
    """

    kind: ClassVar[str] = "regression"

    def __init__(self, column: str, *, mean: float = 0.0, deviation: float = 1.0) -> None:
        self.column, self.mean, self.deviation = column, float(mean), float(deviation)

    @classmethod
    def of(cls, values: Sequence[Any], *, column: str, others: Sequence[Any] = ()) -> Self:
        """Take mean and deviation of the training networks.

        Raises:
            DataError: a value is no number, or all are the same.
        """
        numbers = _numbers(values, column, others)
        return cls(column, mean=statistics.fmean(numbers), deviation=statistics.pstdev(numbers))

    @classmethod
    def from_meaning(cls, meaning: Mapping[str, Any]) -> Self:
        """Read what a saved model learned."""
        return cls(
            str(meaning["target"]),
            mean=float(meaning["mean"]),
            deviation=float(meaning["deviation"]),
        )

    @property
    def outputs(self) -> int:
        """One."""
        return 1

    def encode(self, values: Sequence[Any]) -> Float[Tensor, " networks"]:
        """Standardised numbers."""
        numbers = torch.tensor([float(value) for value in values], dtype=torch.float64)
        return ((numbers - self.mean) / self.deviation).float()

    def decode(self, outputs: Float[Tensor, "networks 1"]) -> Float[Tensor, " networks"]:
        """Numbers in the column's own unit."""
        return self.measured(outputs.flatten())

    def measured(self, encoded: Float[Tensor, " networks"]) -> Float[Tensor, " networks"]:
        """Undo :meth:`encode`."""
        return encoded.double() * self.deviation + self.mean

    def meaning(self) -> dict[str, Any]:
        """The column and its standardisation."""
        return {
            "kind": self.kind,
            "target": self.column,
            "mean": self.mean,
            "deviation": self.deviation,
        }


class Share(Quantity):
    """A share from 0 to 1 for each network, such as an accuracy, learned through its logit.

    Unterthiner et al. 2020 and Kofinas et al. 2024 (CNN Wild Park): outputs go through a
    sigmoid, so that no prediction lies outside.

    Args:
        column: the name of what is measured.

    >>> Share("accuracy").decode(torch.tensor([[0.0]]))
    tensor([0.5000], dtype=torch.float64)
    """

    kind: ClassVar[str] = "share-regression"

    def __init__(self, column: str) -> None:
        super().__init__(column)

    @classmethod
    def of(cls, values: Sequence[Any], *, column: str, others: Sequence[Any] = ()) -> Self:
        """Check that the numbers are shares.

        Raises:
            DataError: a value is no number from 0 to 1, or all are the same.
        """
        numbers = [*_numbers(values, column, others), *map(float, others)]
        outside = [number for number in numbers if not 0 <= number <= 1]
        if outside:
            raise DataError(
                f"column {column!r}",
                expected="shares from 0 to 1",
                found=f"{len(outside)} outside, such as {outside[0]:g}",
                hint="Learn it as a plain number: --task regress.",
            )
        return cls(column)

    @classmethod
    def from_meaning(cls, meaning: Mapping[str, Any]) -> Self:
        """Read what a saved model learned."""
        return cls(str(meaning["target"]))

    def decode(self, outputs: Float[Tensor, "networks 1"]) -> Float[Tensor, " networks"]:
        """Shares from 0 to 1."""
        return outputs.flatten().double().sigmoid()

    def meaning(self) -> dict[str, Any]:
        """The column."""
        return {"kind": self.kind, "target": self.column}


def _numbers(values: Sequence[Any], column: str, others: Sequence[Any]) -> list[float]:
    """Check that values can be regressed on; those of the training networks as numbers."""
    together = [*values, *others]
    if not values or any(map(is_missing, together)):
        raise DataError(
            f"column {column!r}",
            expected="a number for every network",
            found="missing ones" if values else "none",
        )
    require_plain(together, column)
    wrong = [value for value in together if isinstance(value, bool | str)]
    if wrong:
        raise DataError(
            f"column {column!r}",
            expected="numbers",
            found=f"{len(wrong)} of {len(together)} values such as {str(wrong[0])[:40]!r}",
            hint="Learn them as classes: --task classify.",
        )
    if len(set(values)) < 2:
        raise DataError(
            f"column {column!r}",
            expected="different numbers among the training networks",
            found=f"{values[0]} for every one",
            hint="There is nothing to learn in it; choose another column.",
        )
    return [float(value) for value in values]
