"""Exact models on one huge network: states of edges are never stored, but found again.

What a model keeps for an edge is a function of the edge's own weight and of the states its two
ends had so far. So a layer's messages can be found piece by piece from the weights, and their
gradient too, at the price of going through the earlier layers' edge maps again. Memory holds the
node states of all layers and, for one piece at a time, every step's states of its edges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function

from weightspace.nn.arrangement import Arrangement
from weightspace.nn.cached_parts import cached_parts
from weightspace.nn.first_derivative import first_derivative
from weightspace.nn.pieces import Direction, Ends, directions
from weightspace.nn.raw_blocks import RawBlock

STATE_VALUES = 1 << 19
"""Values that a piece's edges have in one of the program's steps: two megabytes in float32."""


class EdgeProgram(Protocol):
    """What a model does with edges: from weights and ends to what receivers get."""

    @property
    def width(self) -> int:
        """Channels of the widest states of an edge."""
        ...

    def __call__(
        self,
        way: Direction,
        weights: Float[Tensor, "l t s features"],
        parameters: Sequence[Tensor],
        receivers: Sequence[Tensor],
        senders: Sequence[Tensor],
    ) -> tuple[Tensor, ...]:
        """Compute what each receiver gets, with ordinary differentiable operations.

        Args:
            way: the run and the direction of the messages.
            weights: the normalised weights of a piece; all senders of its receivers are in it.
            parameters: what all pieces share.
            receivers: ``[l, t, 1, d]`` along and ``[l, 1, s, d]`` against, for each tensor of
                node states.
            senders: the other end's.

        Returns:
            Values with the receivers' dimensions, such as sums over ``way.over``.
        """
        ...


@dataclass(frozen=True, eq=False)
class EdgeWeights:
    """A batch's connections with their own weights.

    Args:
        arrangement: of the batch.
        blocks: the weights of each run.
    """

    arrangement: Arrangement
    blocks: tuple[tuple[RawBlock, ...], ...]

    @property
    def values(self) -> list[Tensor]:
        """The weights of all blocks, in order."""
        return [block.values for own in self.blocks for block in own]


def reduce_edges(
    edges: EdgeWeights,
    program: EdgeProgram,
    parameters: Sequence[Tensor],
    nodes: Sequence[tuple[Tensor, Tensor]],
) -> tuple[Float[Tensor, "received c"], ...]:
    """Run a program over all edges, both directions, piece by piece.

    Args:
        edges: the connections.
        program: from weights and ends to what receivers get.
        parameters: tensors that all pieces share.
        nodes: states ``[nodes, d]`` as receivers have them and as senders have them, any number
            of pairs.

    Returns:
        Each of the program's results, in the order of received rows.
    """
    flat = [states for pair in nodes for states in pair]
    setting = _Setting(edges, program, len(parameters), len(nodes))
    result: tuple[Tensor, ...] = _Reduced.apply(  # type: ignore[no-untyped-call]
        setting, *parameters, *flat, *edges.values
    )
    return result


@dataclass(frozen=True, eq=False)
class _Setting:
    edges: EdgeWeights
    program: EdgeProgram
    parameters: int
    pairs: int

    def cut(self, tensors: Sequence[Any]) -> tuple[list[Any], list[tuple[Any, Any]], list[Any]]:
        """Parameters, pairs of node states, weights."""
        ends = self.parameters + 2 * self.pairs
        flat = tensors[self.parameters : ends]
        pairs = list(zip(flat[::2], flat[1::2], strict=True))
        return list(tensors[: self.parameters]), pairs, list(tensors[ends:])


@dataclass(frozen=True, eq=False)
class _Piece:
    """Some receivers of one block with all their connections.

    Args:
        block: its number among all blocks.
        values: its weights.
        at: the piece's place in the block.
        lead: the range of the run's lead.
        receivers: their range.
    """

    block: int
    values: RawBlock
    at: tuple[slice, slice, slice]
    lead: slice
    receivers: slice

    @property
    def weights(self) -> Tensor:
        """The normalised weights of the piece: a small copy."""
        part = self.values.values.detach()[self.at]
        return (part - self.values.mean) / self.values.std

    def take(self, way: Direction, ends: Ends) -> tuple[Tensor, Tensor]:
        """The piece's receivers and senders."""
        mine, theirs = ends.receiver[self.lead], ends.sender[self.lead]
        return (mine[:, :, self.receivers] if way.index else mine[:, self.receivers]), theirs


def _pieces(setting: _Setting, way: Direction, place: int, first: int) -> Iterator[_Piece]:
    start = 0
    for number, block in enumerate(setting.edges.blocks[place]):
        lead, targets, sources, _ = block.values.shape
        receivers, others = (sources, targets) if way.index else (targets, sources)
        row = others * setting.program.width
        for part in cached_parts(lead, row * receivers, STATE_VALUES):
            for own in cached_parts(receivers, row * (part.stop - part.start), STATE_VALUES):
                whole = slice(None)
                at = (part, whole, own) if way.index else (part, own, whole)
                shifted = slice(start + part.start, start + part.stop)
                yield _Piece(first + number, block, at, shifted, own)
        start += lead


def _walk(setting: _Setting) -> Iterator[tuple[Direction, list[_Piece]]]:
    """Every run in both directions, with its pieces."""
    firsts, count = [], 0
    for own in setting.edges.blocks:
        firsts.append(count)
        count += len(own)
    for number, way in enumerate(directions(setting.edges.arrangement)):
        place = number // 2
        yield way, list(_pieces(setting, way, place, firsts[place]))


class _Reduced(Function):
    @staticmethod
    def forward(ctx: Any, setting: _Setting, *inputs: Tensor) -> tuple[Tensor, ...]:
        parameters, nodes, _ = setting.cut(inputs)
        outputs: list[Tensor] = []
        count = setting.edges.arrangement.received_count
        for way, pieces in _walk(setting):
            ends = [Ends.of(way, *pair) for pair in nodes]
            for piece in pieces:
                mine, theirs = _split(way, piece, ends)
                results = setting.program(way, piece.weights, parameters, mine, theirs)
                if not outputs:
                    outputs = [r.new_empty(count, r.shape[-1]) for r in results]
                for output, result in zip(outputs, results, strict=True):
                    room = _rows(output, way, piece)
                    room.copy_(result.reshape(room.shape))
        ctx.save_for_backward(*inputs)
        ctx.setting = setting
        return tuple(outputs)

    @staticmethod
    @first_derivative
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        setting: _Setting = ctx.setting
        parameters, nodes, values = setting.cut(ctx.saved_tensors)
        wanted = setting.cut(ctx.needs_input_grad[1:])[2]
        leaves = [p.detach().requires_grad_() for p in parameters]
        d_parameters = [torch.zeros_like(p) for p in parameters]
        d_nodes = [(torch.zeros_like(r), torch.zeros_like(s)) for r, s in nodes]
        d_values = [
            torch.zeros_like(v) if want else None for v, want in zip(values, wanted, strict=True)
        ]
        for way, pieces in _walk(setting):
            ends = [Ends.of(way, *pair) for pair in nodes]
            d_ends = [Ends(torch.zeros_like(e.receiver), torch.zeros_like(e.sender)) for e in ends]
            for piece in pieces:
                given = [_rows(grad, way, piece) for grad in grads]
                d_own = d_values[piece.block]
                weights = piece.weights.requires_grad_(d_own is not None)
                found = _piece_gradient(
                    setting.program, way, weights, leaves, _split(way, piece, ends), given
                )
                _add(d_parameters, found[0])
                d_mine, d_theirs = _split(way, piece, d_ends)
                _add(d_mine, found[1])
                _add(d_theirs, found[2])
                if d_own is not None and found[3][0] is not None:
                    d_own[piece.at] += found[3][0] / piece.values.std
            for part, totals in zip(d_ends, d_nodes, strict=True):
                part.add_to(way, *totals)
        flat = [total for totals in d_nodes for total in totals]
        return None, *d_parameters, *flat, *d_values


def _split(
    way: Direction, piece: _Piece, ends: Sequence[Ends]
) -> tuple[list[Tensor], list[Tensor]]:
    """The piece's receivers of all pairs, and its senders."""
    taken = [piece.take(way, pair) for pair in ends]
    return [mine for mine, _ in taken], [theirs for _, theirs in taken]


def _rows(values: Tensor, way: Direction, piece: _Piece) -> Float[Tensor, "l receivers c"]:
    """What the piece's receivers have in a buffer of received values."""
    of_run = values[way.received].view(way.run.lead, -1, values.shape[1])
    return of_run[piece.lead, piece.receivers]


def _piece_gradient(  # noqa: PLR0917 (one step of one loop)
    program: EdgeProgram,
    way: Direction,
    weights: Tensor,
    parameters: list[Tensor],
    ends: tuple[list[Tensor], list[Tensor]],
    grads: list[Tensor],
) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    """Run a piece again and back: gradients of parameters, receivers, senders and weights."""
    mine, theirs = ([e.detach().requires_grad_() for e in own] for own in ends)
    wanted = [weights] if weights.requires_grad else []
    with torch.enable_grad():
        results = program(way, weights, parameters, mine, theirs)
    given = [grad.reshape(r.shape) for grad, r in zip(grads, results, strict=True)]
    inputs = [*parameters, *mine, *theirs, *wanted]
    found = list(torch.autograd.grad(results, inputs, given, allow_unused=True))
    first, second = len(parameters), len(parameters) + len(mine)
    third = second + len(theirs)
    return found[:first], found[first:second], found[second:third], found[third:]


def _add(totals: Sequence[Tensor], parts: Sequence[Tensor | None]) -> None:
    for total, part in zip(totals, parts, strict=True):
        if part is not None:
            total.add_(part)
