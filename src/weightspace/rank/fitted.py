"""What is left of a candidate after fitting: plain arrays that predict, safe to save and read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from weightspace.graph import MixedGraph
from weightspace.rank.folds import Integers

Array = npt.NDArray[np.float64]
LIMIT = 4.0
"""Standardised features are cut here, so that a linear model cannot run away."""


class Fitted(ABC):
    """A model that predicts a number for each network."""

    kind: ClassVar[str]
    """How saved files call it."""

    @abstractmethod
    def predict(self, features: Array, networks: MixedGraph | None) -> Array:
        """The number of each network.

        Args:
            features: ``[networks, features]``.
            networks: the same networks, for models that read weights.
        """

    @abstractmethod
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All that it is made of."""

    @classmethod
    @abstractmethod
    def of_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Undo :meth:`arrays`."""


@dataclass(frozen=True, eq=False)
class Linear(Fitted):
    """A linear function of standardised features.

    Args:
        mean: of each feature.
        scale: its deviation.
        weights: of each standardised feature.
        offset: ``[1]``, the prediction at the mean.
    """

    kind: ClassVar[str] = "ridge"
    mean: Array
    scale: Array
    weights: Array
    offset: Array

    def predict(self, features: Array, networks: MixedGraph | None) -> Array:
        """See :class:`Fitted`."""
        standard = np.clip((features - self.mean) / self.scale, -LIMIT, LIMIT)
        said: Array = standard @ self.weights + self.offset
        return said

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """See :class:`Fitted`."""
        return {
            "mean": self.mean, "scale": self.scale, "weights": self.weights, "offset": self.offset,
        }  # fmt: skip

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """See :class:`Fitted`."""
        return cls(arrays["mean"], arrays["scale"], arrays["weights"], arrays["offset"])


@dataclass(frozen=True, eq=False)
class Trees(Fitted):
    """A sum of regression trees.

    Args:
        roots: ``[trees]``, the node at which each begins.
        children: ``[nodes, 2]``, where a network goes next; a leaf points to itself.
        feature: ``[nodes]``, what is compared.
        threshold: ``[nodes]``; features up to it go left.
        value: ``[nodes]``, what a leaf adds.
        offset: ``[1]``, what the sum begins with.
        depth: ``[1]``, of the deepest tree.
    """

    kind: ClassVar[str] = "trees"
    roots: Integers
    children: Integers
    feature: Integers
    threshold: Array
    value: Array
    offset: Array
    depth: Integers

    def predict(self, features: Array, networks: MixedGraph | None) -> Array:
        """See :class:`Fitted`."""
        # Trees of scikit-learn compare single precision.
        single = features.astype(np.float32)
        rows = np.arange(len(single))[:, None]
        at = np.repeat(self.roots[None], len(single), axis=0)
        for _ in range(int(self.depth[0])):
            right = single[rows, self.feature[at]] > self.threshold[at]
            at = self.children[at, right.astype(np.int64)]
        said: Array = self.value[at].sum(axis=1) + self.offset
        return said

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """See :class:`Fitted`."""
        names = ("roots", "children", "feature", "threshold", "value", "offset", "depth")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """See :class:`Fitted`.

        Raises:
            ValueError: a node points outside.
        """
        made = cls(**dict(arrays))
        nodes = len(made.feature)
        if not all(((a >= 0) & (a < nodes)).all() for a in (made.roots, made.children)):
            raise ValueError("trees with nodes that are not there")
        return made
