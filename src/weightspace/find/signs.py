"""Setting the signs of one network's neurons by another's, neuron by neuron."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from weightspace.graph import GraphSpec, match_weights
from weightspace.graph.layout import piece_grid
from weightspace.graph.symmetry import factor_place

ROUNDS = 8


def settle_signs(
    spec: GraphSpec, fixed: Mapping[str, Tensor], moving: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Flip and reorder a network's neurons until nothing brings it closer to another.

    Canonical signs hang on a sum of weights; where that is near zero, training a little or
    rounding turns it, and with it all signs before. So they only begin the search: here neurons
    whose weights' inner product with their counterparts' is negative are flipped, and the order
    is found anew, by turns.

    Args:
        spec: the structure, with the rescalings of kind ``"sign"`` that it allows.
        fixed: the network that stays.
        moving: the network that was aligned to it already.
    """
    state = {name: tensor.clone() for name, tensor in moving.items()}
    best = _product(spec, fixed, state)
    for _ in range(ROUNDS):
        trial = _flipped(spec, fixed, state)
        trial = match_weights(spec, fixed, trial).element.act_state(trial)
        value = _product(spec, fixed, trial)
        if value <= best * (1 + 1e-9):
            break
        state, best = trial, value
    return state


def _flipped(
    spec: GraphSpec, fixed: Mapping[str, Tensor], moving: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """One pass over all rescalings of kind ``"sign"``, from the last layer to the first."""
    state = {name: tensor.clone() for name, tensor in moving.items()}
    for rescaling in reversed([r for r in spec.rescalings if r.kind == "sign"]):
        held = [
            (piece.parameter, piece, factor_place(spec, piece, weighing))
            for piece in spec.pieces
            for weighing in piece.weighings
            if weighing.rescaling == rescaling.name
        ]
        products = [
            _along(piece_grid(piece, fixed[name][None]), place)
            .mul(_along(piece_grid(piece, state[name][None]), place))
            .sum(-1)
            for name, piece, place in held
        ]
        signs = torch.where(torch.stack(products).sum(0) < 0, -1.0, 1.0)
        for name, piece, place in held:
            grid = piece_grid(piece, state[name][None]).movedim(place + 1, -1)
            grid.mul_(signs.to(grid.dtype))
    return state


def _along(grid: Tensor, place: int) -> Tensor:
    """Values ``[neurons, others]``."""
    return grid.movedim(place + 1, 0).flatten(1).double()


def _product(spec: GraphSpec, one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
    trained = [p.name for p in spec.parameters if not p.buffer]
    return sum(float((one[n].double() * other[n].double()).sum()) for n in trained)
