"""Which pairs of neurons a relational model looks at, and how their states lie in a flat buffer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.nn.arrangement import Arrangement, Rows
from weightspace.nn.cached_parts import cached_parts

PIECE_PAIRS = 1 << 11
"""Pairs that are worked on together: their projections are a few megabytes."""


@dataclass(frozen=True)
class GridPiece:
    """Some pairs of a grid: several whole blocks, or some rows of one.

    Args:
        lead: the range of blocks.
        rows: the range of receivers of each.
        pairs: the rows in the pair buffer.
        received: the rows in the buffer of received values.
    """

    lead: slice
    rows: slice
    pairs: slice
    received: slice


@dataclass(frozen=True, eq=False)
class Grid:
    """Pairs whose states are a dense tensor ``[lead, receivers, senders, d]``.

    Args:
        lead: blocks.
        receivers: neurons of each block that attend.
        senders: neurons of each block that are attended to.
        pairs: the rows in the pair buffer.
        receiver: the rows of the receivers in the node buffer, ordered by lead.
        sender: the rows of the senders in the buffer of nodes and pools, ordered by lead.
        received: the rows in the buffer of received values.
        reverse: the grid that holds the pair ``(j, i)`` of each pair ``(i, j)``, transposed.
    """

    lead: int
    receivers: int
    senders: int
    pairs: slice
    receiver: Rows
    sender: Rows
    received: slice
    reverse: int

    def of_pairs(self, buffer: Float[Tensor, "pairs d"]) -> Tensor:
        """The states of the grid's pairs, ``[lead, receivers, senders, d]``."""
        return buffer[self.pairs].view(self.lead, self.receivers, self.senders, buffer.shape[-1])

    def at_receivers(self, nodes: Float[Tensor, "nodes d"]) -> Tensor:
        """The receivers' values, ``[lead, receivers, 1, d]``."""
        return _take(nodes, self.receiver).view(self.lead, self.receivers, 1, nodes.shape[-1])

    def at_senders(self, nodes: Float[Tensor, "senders d"]) -> Tensor:
        """The senders' values, ``[lead, 1, senders, d]``."""
        return _take(nodes, self.sender).view(self.lead, 1, self.senders, nodes.shape[-1])

    def pieces(self) -> Iterator[GridPiece]:
        """Cut the grid into pieces of about :data:`PIECE_PAIRS` pairs, at least one receiver's."""
        size = self.receivers * self.senders
        if size <= PIECE_PAIRS:
            for lead in cached_parts(self.lead, size, PIECE_PAIRS):
                yield self._piece(lead, slice(0, self.receivers))
            return
        for i in range(self.lead):
            for rows in cached_parts(self.receivers, self.senders, PIECE_PAIRS):
                yield self._piece(slice(i, i + 1), rows)

    def _piece(self, lead: slice, rows: slice) -> GridPiece:
        start = lead.start * self.receivers + rows.start
        stop = (lead.stop - 1) * self.receivers + rows.stop
        pairs = slice(
            self.pairs.start + start * self.senders, self.pairs.start + stop * self.senders
        )
        received = slice(self.received.start + start, self.received.start + stop)
        return GridPiece(lead, rows, pairs, received)


@dataclass(frozen=True, eq=False)
class PairLayout:
    """The pairs of a batch of networks, never of two networks.

    Args:
        arrangement: of the batch; the node buffer is in its order.
        grids: the pairs.
        along: the row in the pair buffer of each connection, target looking at source. A
            range where every connection is a pair of its own.
        against: the same, source looking at target.
        pools: whether the means of node sets are attended to, too.
    """

    arrangement: Arrangement
    grids: tuple[Grid, ...]
    along: Rows
    against: Tensor
    pools: bool = False

    @property
    def pair_count(self) -> int:
        """Rows of the pair buffer."""
        return int(self.grids[-1].pairs.stop)

    @property
    def received_count(self) -> int:
        """Rows of the buffer of received values."""
        return int(self.grids[-1].received.stop)

    def reversed_piece(
        self, grid: Grid, piece: GridPiece, buffer: Float[Tensor, "pairs d"]
    ) -> Float[Tensor, "lead receivers senders d"]:
        """The states of the pairs ``(j, i)`` for the pairs ``(i, j)`` of a piece, a view."""
        other = self.grids[grid.reverse].of_pairs(buffer)
        return other[piece.lead, :, piece.rows].transpose(1, 2)

    def senders(self, nodes: Float[Tensor, "nodes d"]) -> Float[Tensor, "senders d"]:
        """The values of all that can be attended to: nodes and, if wanted, node sets' means."""
        if not self.pools:
            return nodes
        states = self.arrangement.split(nodes)
        sections = self.arrangement.sections
        return torch.cat([nodes, *(states[s.part, s.place].mean(1) for s in sections)])

    def gather(self, nodes: Float[Tensor, "nodes d"]) -> Float[Tensor, "received d"]:
        """Each receiver's value, once for every grid that it receives from."""
        parts = [_take(nodes, grid.receiver) for grid in self.grids]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def add_up(self, received: Float[Tensor, "received d"]) -> Float[Tensor, "nodes d"]:
        """Sum what each node receives from all grids."""
        nodes = received.new_zeros(self.arrangement.node_count, received.shape[-1])
        for grid in self.grids:
            add_rows(nodes, grid.receiver, received[grid.received])
        return nodes

    def largest(self, received: Float[Tensor, "received d"]) -> Float[Tensor, "nodes d"]:
        """The largest value that each node receives."""
        shape = (self.arrangement.node_count, received.shape[-1])
        nodes = received.new_full(shape, -torch.inf)
        for grid in self.grids:
            values = received[grid.received]
            if isinstance(grid.receiver, slice):
                nodes[grid.receiver] = torch.maximum(nodes[grid.receiver], values)
            else:
                index = grid.receiver.to(nodes.device).unsqueeze(1).expand_as(values)
                nodes.scatter_reduce_(0, index, values, "amax")
        return nodes


def add_rows(buffer: Tensor, rows: Rows, values: Tensor) -> None:
    """Add values to rows of a buffer, which may be named more than once."""
    if isinstance(rows, slice):
        buffer[rows].add_(values)
    else:
        buffer.index_add_(0, rows.to(buffer.device), values)


def _take(buffer: Tensor, rows: Rows) -> Tensor:
    if isinstance(rows, slice):
        return buffer[rows]
    return buffer.index_select(0, rows.to(buffer.device))
