"""Giving the neurons of every rescaling a factor of their own, one rescaling after another."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.graph.axis import RescalingKind
from weightspace.graph.binding import Piece
from weightspace.graph.layout import piece_grid
from weightspace.graph.spec import GraphSpec
from weightspace.graph.symmetry import factor_place

Stacked = dict[str, Tensor]


def settled_factors(
    spec: GraphSpec, stacked: Stacked, kind: RescalingKind
) -> tuple[Stacked, Stacked]:
    """Bring networks to a form that is the same for all that differ in factors of one kind.

    Rescalings are settled in an order in which each has a judge: tensors that no rescaling
    acts on but itself and those that are settled. Scales make the norm of the judges' values
    at each neuron one, signs make their sum positive. Values that touch a neuron without a
    factor yet do not count; neurons that nothing has judged (all their values are zero) get
    their factor in a second round, backwards, from whatever is settled by then.

    Factors of a dead part, whose neurons only touch each other, stay as they are. Signs are
    the same for networks that differ in signs; if they also differ in scales, scales come first.

    Args:
        spec: the networks' structure.
        stacked: their tensors with a leading batch dimension.
        kind: signs or scales.

    Returns:
        The tensors, new ones where factors act, and what they were multiplied by: for the others
        the number one.
    """
    names = [r.name for r in spec.rescalings if r.kind == kind]
    if not names:
        return dict(stacked), {name: tensor.new_ones(()) for name, tensor in stacked.items()}
    holds = {name: list(_holds(spec, name, set(names))) for name in names}
    touched = {hold.piece.parameter for own in holds.values() for hold in own}
    state = _State(kind, holds, *own_copies(stacked, touched))
    waiting, order = list(names), []
    while waiting:
        ready = [name for name in waiting if state.judges(name, 1, waiting)] or waiting
        order.append(ready[0])
        waiting.remove(ready[0])
        state.settle(ready[0], state.judges(ready[0], 1, waiting))
    for name in reversed(order):
        state.settle(name, state.judges(name, -1, []))
    for item in spec.left_out:
        if item.same_as is not None:
            for tensors in (state.tensors, state.applied):
                tensors[item.parameter.name] = tensors[item.same_as]
    return state.tensors, state.applied


def own_copies(stacked: Stacked, touched: Collection[str]) -> tuple[Stacked, Stacked]:
    """Copies of some tensors, and ones for these; of large networks most are not touched."""
    return (
        {name: t.clone() if name in touched else t for name, t in stacked.items()},
        {
            name: torch.ones_like(t) if name in touched else t.new_ones(())
            for name, t in stacked.items()
        },
    )


@dataclass(frozen=True)
class _Hold:
    """A piece that a rescaling acts on.

    Args:
        piece: what it holds.
        power: of the rescaling's factors.
        place: where the rescaling's neurons stand among the piece's factors.
        others: the other rescalings that act on the piece, with their places.
    """

    piece: Piece
    power: int
    place: int
    others: tuple[tuple[str, int], ...]


@dataclass
class _State:
    """Tensors on their way.

    Args:
        kind: signs or scales.
        holds: the pieces that each rescaling acts on.
        tensors: as they are now.
        applied: what they have been multiplied by.
        settled: which neurons of a rescaling have their factor, ``[batch, neurons]``.
    """

    kind: RescalingKind
    holds: dict[str, list[_Hold]]
    tensors: Stacked
    applied: Stacked
    settled: dict[str, Tensor] = field(default_factory=dict)

    def judges(self, name: str, power: int, waiting: list[str]) -> list[_Hold]:
        """The pieces that say what a rescaling's factors are; of signs every power does."""
        return [
            hold
            for hold in self.holds[name]
            if (hold.power == power or self.kind == "sign")
            and not any(other in waiting or other == name for other, _ in hold.others)
        ]

    def settle(self, name: str, judges: list[_Hold]) -> None:
        """Give the neurons of a rescaling their factor, if they have none and are judged."""
        if name not in self.settled:
            hold = self.holds[name][0]
            grid = piece_grid(hold.piece, self.tensors[hold.piece.parameter])
            shape = grid.shape[0], grid.shape[hold.place + 1]
            self.settled[name] = torch.zeros(shape, dtype=torch.bool, device=grid.device)
        if not judges:
            return
        total = torch.stack([self._measure(hold) for hold in judges]).sum(0)
        found = (total != 0) & ~self.settled[name]
        self.settled[name] = self.settled[name] | found
        total = torch.where(found, total, torch.ones_like(total))
        # squares carry twice the power of the judges, which is to be taken away
        factors = total.sign() if self.kind == "sign" else total.pow(-0.5 * judges[0].power)
        for hold in self.holds[name]:
            for tensors in (self.tensors, self.applied):
                grid = piece_grid(hold.piece, tensors[hold.piece.parameter])
                grid.mul_((factors**hold.power).to(grid.dtype).view(_shape(grid, hold.place)))

    def _measure(self, hold: _Hold) -> Float[Tensor, "batch neurons"]:
        """Sums of values or of squares, in double precision against underflow."""
        tensor = self.tensors[hold.piece.parameter]
        grid = piece_grid(hold.piece, tensor).to(torch.float64, copy=True)
        for other, place in hold.others:
            grid = grid * self.settled[other].view(_shape(grid, place))
        values = grid if self.kind == "sign" else grid.square()
        values = values.movedim(hold.place + 1, 1)
        return values.flatten(2).sum(-1) if values.ndim > 2 else values


def _shape(grid: Tensor, place: int) -> list[int]:
    """Of a value for each network and neuron, for broadcasting."""
    shape = [1] * grid.ndim
    shape[0], shape[place + 1] = grid.shape[0], grid.shape[place + 1]
    return shape


def _holds(spec: GraphSpec, name: str, names: set[str]) -> Iterator[_Hold]:
    """The pieces that a rescaling acts on; values that several pieces hold once."""
    seen: set[object] = set()
    for piece in spec.pieces:
        if (piece.parameter, piece.cells) in seen:
            continue
        seen.add((piece.parameter, piece.cells))
        for weighing in piece.weighings:
            if weighing.rescaling == name:
                rest = [w for w in piece.weighings if w != weighing and w.rescaling in names]
                others = tuple((w.rescaling, factor_place(spec, piece, w)) for w in rest)
                yield _Hold(piece, weighing.power, factor_place(spec, piece, weighing), others)
