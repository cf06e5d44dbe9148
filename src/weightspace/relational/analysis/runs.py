"""What a study of wiring measured: one network's errors over graphs and seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from weightspace.errors import DataError

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class EpochRuns:
    """Errors while training.

    Args:
        epochs: in ascending order; the last is the end of training.
        errors: in percent; NaN where a run is missing.
    """

    epochs: tuple[int, ...]
    errors: Float[Array, "epochs graphs seeds"]


@dataclass(frozen=True, eq=False)
class ControlRuns:
    """What a sweep is compared with: networks that are wired otherwise.

    Args:
        errors: in percent, one row for each control network.
        graphs: the graph of the sweep that each is a control of, empty where it is of none.
    """

    errors: Float[Array, "controls seeds"]
    graphs: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class NetworkRuns:
    """All runs of one network.

    Args:
        name: of the network.
        graphs: the name of each graph.
        places: clustering and path length of each.
        degrees: the mean degree of each.
        nodes: the number of nodes of each.
        errors: in percent at the end of training; NaN where a run is missing.
        complete: errors of the complete graph, the ordinary network; may be empty.
        by_epoch: errors while training, where they were kept.
        controls: other wirings, by kind.
        stopped: how many more graphs were stopped early, for they were worse; those here were
            selected.

    Raises:
        DataError: lengths differ, or a graph has no run.
    """

    name: str
    graphs: tuple[str, ...]
    places: Float[Array, "graphs 2"]
    degrees: Float[Array, "graphs"]
    nodes: Float[Array, "graphs"]
    errors: Float[Array, "graphs seeds"]
    complete: Float[Array, "runs"] = field(default_factory=lambda: np.empty(0))
    by_epoch: EpochRuns | None = None
    controls: Mapping[str, ControlRuns] = field(default_factory=dict)
    stopped: int = 0

    def __post_init__(self) -> None:
        count = len(self.graphs)
        lengths = {len(self.places), len(self.degrees), len(self.nodes), len(self.errors)}
        if not count or lengths != {count}:
            raise DataError(
                f"results of {self.name}",
                expected="at least one graph, with a place, degree and errors each",
                found=f"{count} graphs with {sorted(lengths)} of these",
            )
        empty = np.flatnonzero(~np.isfinite(self.errors).any(1))
        if len(empty):
            raise DataError(
                f"results of {self.name}",
                expected="a run of every graph",
                found=f"none of {self.graphs[empty[0]]}",
            )

    @property
    def means(self) -> Float[Array, "graphs"]:
        """The mean error of each graph over its runs."""
        return row_means(self.errors)

    @property
    def seeds(self) -> int:
        """The most runs that a graph can have."""
        return int(self.errors.shape[1])

    def subset(self, indices: Sequence[int] | Array) -> NetworkRuns:
        """The runs of some graphs, without controls."""
        chosen = np.asarray(indices, dtype=int)
        epochs = self.by_epoch
        return NetworkRuns(
            self.name,
            tuple(self.graphs[i] for i in chosen),
            self.places[chosen],
            self.degrees[chosen],
            self.nodes[chosen],
            self.errors[chosen],
            self.complete,
            epochs and EpochRuns(epochs.epochs, epochs.errors[:, chosen]),
        )


def row_means(errors: Float[Array, "*rows seeds"]) -> Float[Array, "*rows"]:
    """Means over the last dimension of what is there; NaN where nothing is."""
    there = np.isfinite(errors)
    count = there.sum(-1)
    total = np.where(there, errors, 0).sum(-1)
    means: Array = np.where(count, total / np.maximum(count, 1), np.nan)
    return means


def row_deviations(errors: Float[Array, "*rows seeds"]) -> Float[Array, "*rows"]:
    """Population deviations over the last dimension, as the published tables have them."""
    squares = (errors - row_means(errors)[..., None]) ** 2
    return np.sqrt(row_means(squares))
