"""Which channels each group of nodes of a wired layer reads, and which weights it uses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from weightspace.relational.wiring import Wiring

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """Channels that a group reads together.

    Args:
        group: the group's number.
        place: a range of channels, read where they stand, or indices, gathered.
        length: how many channels.
        adds: whether it adds to the sum; a group's first part begins it.
    """

    group: int
    place: slice | Tensor
    length: int
    adds: bool


@dataclass(frozen=True)
class Side:
    """The groups of one side's channels.

    The weights of a part are a matrix with a row for each channel read and a column for each
    of the group's own; the matrices of all parts lie in one flat buffer.

    Args:
        sizes: the number of own channels of each group.
        parts: what the groups read, group by group.
        read_width: the number of channels of the other side.
        order: the side's channels in the order of the groups, None if they stand in order.
        taken: where in the layer's flattened weight each number of the flat buffer comes from.
        mask: whether it is a connection; groups read for one node what only another needs.
        given: where in the flat buffer each number of the weight is, or its length if nowhere.
    """

    sizes: list[int]
    parts: list[Part]
    read_width: int
    order: Tensor | None
    taken: Tensor
    mask: Tensor
    given: Tensor

    @property
    def products(self) -> int:
        """How many weights the groups multiply with."""
        return len(self.taken)

    @cached_property
    def gathered(self) -> int:
        """How many channels are gathered, over all groups."""
        return sum(p.length for p in self.parts if not isinstance(p.place, slice))

    @cached_property
    def back(self) -> Tensor | None:
        """Where each channel of the layer stands in the order of the groups."""
        return None if self.order is None else torch.argsort(self.order)

    def restored(self, matrix: Tensor) -> Tensor:
        """Columns from the order of the groups to the order of the layer."""
        return matrix if self.back is None else matrix.index_select(1, self.back.to(matrix.device))

    def arranged(self, matrix: Tensor) -> Tensor:
        """Columns from the order of the layer to the order of the groups."""
        if self.order is None:
            return matrix
        return matrix.index_select(1, self.order.to(matrix.device))


def make_side(
    wiring: Wiring,
    side: Literal["in", "out"],
    group: int,
    *,
    order: Sequence[int] | None = None,
    shortest: int | None = None,
) -> Side:
    """Divide one side of a layer into groups of nodes.

    Args:
        wiring: of the layer.
        side: whose channels the groups own.
        group: how many nodes a group has.
        order: of the nodes; as they stand if not given.
        shortest: runs of at least so many channels are read where they stand; if not given,
            only what is one run is.
    """
    nodes = list(range(wiring.graph.n)) if order is None else list(order)
    own, other = wiring.channels(side), wiring.channels("in" if side == "out" else "out")
    mask = wiring.mask().numpy() if side == "out" else wiring.mask().numpy().T
    sizes: list[int] = []
    parts: list[Part] = []
    owned: list[Indices] = []
    taken: list[Indices] = []
    kept: list[npt.NDArray[np.bool_]] = []
    for number, start in enumerate(range(0, len(nodes), group)):
        block = nodes[start : start + group]
        mine = _channels(own, block)
        owned.append(mine)
        sizes.append(len(mine))
        union = _channels(other, np.flatnonzero(wiring.joined[block].any(0)))
        for i, read in enumerate(_divided(union, shortest)):
            parts.append(Part(number, _place(read), len(read), i > 0))
            out, in_ = (mine, read[:, None]) if side == "out" else (read[:, None], mine)
            taken.append((out * wiring.width_in + in_).ravel())
            kept.append(mask[np.ix_(mine, read)].T.ravel())
    flat, connected = np.concatenate(taken), np.concatenate(kept)
    given = np.full(wiring.width_out * wiring.width_in, len(flat))
    given[flat[connected]] = np.flatnonzero(connected)
    return Side(
        sizes,
        parts,
        sum(len(channels) for channels in other),
        None if order is None else torch.from_numpy(np.concatenate(owned)),
        _index(flat),
        torch.from_numpy(connected),
        _index(given),
    )


def _divided(union: Indices, shortest: int | None) -> Iterator[Indices]:
    """Long runs one by one, then all that is left."""
    runs = np.split(union, np.flatnonzero(np.diff(union) != 1) + 1)
    if len(runs) == 1:
        yield union
        return
    limit = len(union) + 1 if shortest is None else shortest
    yield from (run for run in runs if len(run) >= limit)
    rest = [run for run in runs if len(run) < limit]
    if rest:
        yield np.concatenate(rest)


def _place(read: Indices) -> slice | Tensor:
    first, last = int(read[0]), int(read[-1])
    if last - first + 1 == len(read):
        return slice(first, last + 1)
    return torch.from_numpy(read)


def _channels(ranges: list[range], nodes: Sequence[int] | Any) -> Indices:
    return np.concatenate([np.arange(ranges[node].start, ranges[node].stop) for node in nodes])


def _index(numbers: Indices) -> Tensor:
    """Half the bytes, where they suffice: indices are read as often as numbers."""
    small = len(numbers) == 0 or int(numbers.max()) < 2**31
    return torch.from_numpy(numbers.astype(np.int32 if small else np.int64))
