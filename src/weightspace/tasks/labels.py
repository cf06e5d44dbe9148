"""Labels of networks: what is to be learned of them, in the form that a model learns it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from jaxtyping import Float, Shaped
from torch import Tensor

from weightspace.errors import DataError


class Labels(ABC):
    """How the values of a metadata column become what a model learns, and the way back.

    One is made for a training and saved with the model, whose outputs it explains.
    """

    kind: ClassVar[str]
    """How saved models call it."""

    @classmethod
    @abstractmethod
    def of(cls, values: Sequence[Any], *, column: str, others: Sequence[Any] = ()) -> Self:
        """Find out from the column what there is to learn.

        Args:
            values: of the training networks, none of them missing.
            column: its name, for messages.
            others: of the networks for validation and test, as far as their kind matters.

        Raises:
            DataError: the column holds something else.
        """

    @classmethod
    @abstractmethod
    def from_meaning(cls, meaning: Mapping[str, Any]) -> Self:
        """Undo :meth:`meaning`."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """How many values a model gives for each network."""

    @abstractmethod
    def encode(self, values: Sequence[Any]) -> Shaped[Tensor, " networks"]:
        """Values of the column as a model learns them.

        Raises:
            DataError: a value is not of the column's kind.
        """

    @abstractmethod
    def decode(self, outputs: Float[Tensor, "networks outputs"]) -> Float[Tensor, "networks ..."]:
        """What a model's outputs say: chances of classes, or values of the column."""

    @abstractmethod
    def meaning(self) -> dict[str, Any]:
        """Plain values that say what a saved model's outputs mean."""


def is_missing(value: Any) -> bool:
    """Whether a value of a column is no label: nothing, or no finite number.

    >>> is_missing(None), is_missing(float("nan")), is_missing(0.0), is_missing("")
    (True, True, False, False)
    """
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def require_plain(values: Sequence[Any], column: str) -> None:
    """Check that every value of a column is one number, text or truth value.

    Raises:
        DataError: some are lists.
    """
    for value in values:
        if not isinstance(value, bool | int | float | str):
            raise DataError(
                f"column {column!r}",
                expected="a number or a text for each network",
                found=f"a {type(value).__name__}",
                hint="Choose another column; `weightspace zoo info` lists them.",
            )
