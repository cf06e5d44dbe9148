"""Walking over the connections of a batch in pieces that fit the processor's cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from weightspace.nn.arrangement import Arrangement, Rows, Run
from weightspace.nn.cached_parts import cached_parts


@dataclass(frozen=True)
class Piece:
    """Some of a run's blocks.

    Args:
        lead: their range.
        rows: of their connections, among those of the run.
        start: the run's first row in the edge buffer.
    """

    lead: slice
    rows: slice
    start: int

    @property
    def edges(self) -> slice:
        """The rows of their connections in the edge buffer."""
        return slice(self.start + self.rows.start, self.start + self.rows.stop)


@dataclass(frozen=True, eq=False)
class Direction:
    """The messages of a run along its connections or against them.

    Args:
        run: the connections.
        index: 0 along, from sources to targets; 1 against.
    """

    run: Run
    index: int

    @property
    def over(self) -> int:
        """The dimension of ``[lead, targets, sources, d]`` that the senders are."""
        return 2 - self.index

    @property
    def received(self) -> slice:
        """The rows of the receivers in the buffer of received values; of a single run."""
        rows = self._received
        assert isinstance(rows, slice)
        return rows

    @property
    def _received(self) -> Rows:
        return self.run.at_source if self.index else self.run.at_target

    @property
    def opposite(self) -> Direction:
        """The same run the other way, whose receivers are this one's senders."""
        return Direction(self.run, 1 - self.index)

    def deliver(
        self, values: Float[Tensor, "lead receivers d"], received: Float[Tensor, "received d"]
    ) -> None:
        """Write what the receivers get to its place in the buffer of received values."""
        rows = self._received
        if isinstance(rows, slice):
            received[rows].copy_(values.flatten(0, 1))
        else:
            received.index_copy_(0, rows.to(received.device), values.flatten(0, 1))

    def each(self, received: Float[Tensor, "received d"]) -> Float[Tensor, "lead receivers d"]:
        """What belongs to each receiver in the buffer of received values."""
        return take(received, self._received).view(self.run.lead, -1, received.shape[-1])

    def pieces(self, width: int) -> list[Piece]:
        """Cut the run into pieces whose states of this width fit the cache."""
        size, start = self.run.targets * self.run.sources, self.run.edges.start
        return [
            Piece(lead, slice(lead.start * size, lead.stop * size), start)
            for lead in cached_parts(self.run.lead, size * width)
        ]

    def dense(self, rows: Float[Tensor, "edges d"]) -> Float[Tensor, "lead targets sources d"]:
        """View states of a piece's edges by lead, target and source."""
        return rows.view(-1, self.run.targets, self.run.sources, rows.shape[-1])


class Buffers:
    """Room for states of one piece's edges, used again for every piece of a direction.

    Args:
        way: the direction.
        width: channels of the widest states.
        like: a tensor of their type.
    """

    def __init__(self, way: Direction, width: int, *, like: Tensor) -> None:
        self.pieces = way.pieces(width)
        first = self.pieces[0].rows
        self._most, self._like = first.stop - first.start, like
        self._rooms: dict[int, Tensor] = {}

    def rows(self, number: int, piece: Piece, width: int) -> Float[Tensor, "edges d"]:
        """A buffer's rows for a piece; what was in them is lost."""
        if number not in self._rooms:
            self._rooms[number] = self._like.new_empty(self._most, width)
        return self._rooms[number][: piece.rows.stop - piece.rows.start]


@dataclass(frozen=True, eq=False)
class Ends:
    """Values of the receivers and senders of a direction, ready for broadcasting.

    Args:
        receiver: ``[lead, targets, 1, d]`` along, ``[lead, 1, sources, d]`` against.
        sender: the other end's.
    """

    receiver: Tensor
    sender: Tensor

    @classmethod
    def of(
        cls, way: Direction, receivers: Float[Tensor, "nodes d"], senders: Float[Tensor, "nodes d"]
    ) -> Ends:
        """Take the values of a direction's ends out of the node buffer."""
        run = way.run
        at_target, at_source = (senders, receivers) if way.index else (receivers, senders)
        target = take(at_target, run.target).view(run.lead, run.targets, 1, -1)
        source = take(at_source, run.source).view(run.lead, 1, run.sources, -1)
        return cls(source, target) if way.index else cls(target, source)

    @classmethod
    def empty(cls, way: Direction, like: Tensor) -> Ends:
        """Room for values of a direction's ends."""
        run, width = way.run, like.shape[-1]
        target = like.new_empty(run.lead, run.targets, 1, width)
        source = like.new_empty(run.lead, 1, run.sources, width)
        return cls(source, target) if way.index else cls(target, source)

    @property
    def of_receivers(self) -> Float[Tensor, "lead receivers d"]:
        """The receivers' values."""
        return self.receiver.flatten(1, 2)

    @property
    def of_senders(self) -> Float[Tensor, "lead senders d"]:
        """The senders' values."""
        return self.sender.flatten(1, 2)

    def room(self) -> Ends:
        """Room for as many values."""
        return Ends(
            self.receiver.new_empty(self.receiver.shape), self.sender.new_empty(self.sender.shape)
        )

    def piece(self, piece: Piece) -> Ends:
        """The values of a piece's ends."""
        return Ends(self.receiver[piece.lead], self.sender[piece.lead])

    def add_to(self, way: Direction, receivers: Tensor, senders: Tensor) -> None:
        """Add the values to those of the node buffer, in place."""
        run = way.run
        ends = (run.source, run.target) if way.index else (run.target, run.source)
        for buffer, rows, values in zip(
            (receivers, senders), ends, (self.receiver, self.sender), strict=True
        ):
            flat = values.reshape(-1, values.shape[-1])
            if isinstance(rows, slice):
                buffer[rows].add_(flat)
            else:
                buffer.index_add_(0, rows.to(buffer.device), flat)


def directions(arrangement: Arrangement) -> Iterator[Direction]:
    """Every run, along and against."""
    for run in arrangement.runs:
        yield Direction(run, 0)
        yield Direction(run, 1)


def bundled_directions(arrangement: Arrangement) -> Iterator[Direction]:
    """Every bundle of runs, along and against."""
    for run in arrangement.bundles:
        yield Direction(run, 0)
        yield Direction(run, 1)


def take(buffer: Tensor, rows: Rows) -> Tensor:
    """Rows of a buffer: a view of a range, a copy of others."""
    return (
        buffer[rows] if isinstance(rows, slice) else buffer.index_select(0, rows.to(buffer.device))
    )
