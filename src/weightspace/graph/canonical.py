"""Canonical signs: one representative of the networks that differ in neurons' signs."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from weightspace.graph.binding import Piece, Weighing
from weightspace.graph.layout import piece_grid
from weightspace.graph.spec import GraphSpec
from weightspace.graph.symmetry import factor_place


def canonical_signs(spec: GraphSpec, stacked: dict[str, Tensor]) -> dict[str, Tensor]:
    """Flip neurons' signs so that chosen weights of each neuron have a positive sum.

    After an odd activation such as sine or tanh, a neuron with its incoming weights and bias
    negated, and its outgoing weights, too, computes the same function (Kalogeropoulos et al.
    2024). Two fits of one image differ in such signs at random; a model that is not invariant
    to them must learn every combination.

    Input and output neurons have meanings of their own, so sums of weights that touch them say
    most: neurons fed by inputs are judged by their incoming weights, all others by their
    outgoing ones, from the output backwards, since a layer's signs change the sums of the one
    before. Every network gets its own signs, and permuting neurons permutes them.

    Args:
        spec: its rescalings of kind ``"sign"`` say which neurons may flip.
        stacked: the networks' tensors with a leading batch dimension.

    Returns:
        New tensors of the same functions, to the bit but for the order of sums.

    >>> from weightspace.graph import chain_spec
    >>> spec = chain_spec([1, 2, 1], activations="tanh", bias=False)
    >>> first, second = torch.tensor([[[3.0], [-4.0]]]), torch.tensor([[[-1.0, 2.0]]])
    >>> canonical_signs(spec, {"0.weight": first, "1.weight": second})["1.weight"].flatten()
    tensor([-1., -2.])
    """
    return canonical_flips(spec, stacked)[0]


def canonical_flips(
    spec: GraphSpec, stacked: dict[str, Tensor]
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The tensors of :func:`canonical_signs`, and the signs that they were multiplied by."""
    result = {name: tensor.clone() for name, tensor in stacked.items()}
    applied = {name: torch.ones_like(tensor) for name, tensor in stacked.items()}
    fed = _fed_by_inputs(spec)
    flips = [rescaling for rescaling in spec.rescalings if rescaling.kind == "sign"]
    first = [rescaling for rescaling in flips if rescaling.axis in fed]
    then = [rescaling for rescaling in flips if rescaling.axis not in fed]
    for rescaling in [*first, *reversed(then)]:
        judges = 1 if rescaling.axis in fed else -1
        signs = _signs(spec, result, rescaling.name, judges=judges)
        if signs is not None:
            _multiply(spec, result, rescaling.name, signs)
            _multiply(spec, applied, rescaling.name, signs)
    return result, applied


def _signs(
    spec: GraphSpec, stacked: dict[str, Tensor], rescaling: str, *, judges: int
) -> Tensor | None:
    """The signs of one rescaling's neurons, ``[batch, neurons]``, or None if nothing judges.

    Args:
        spec: the networks' structure.
        stacked: their tensors.
        rescaling: its name.
        judges: 1 to judge by incoming weights, -1 by outgoing ones.
    """
    # biases have no dimension beside batch and neurons, and do not judge
    sums = [
        grid.flatten(2).sum(-1)
        for power, grid in _grids(spec, stacked, rescaling)
        if power == judges and grid.ndim > 2
    ]
    return torch.where(torch.stack(sums).sum(0) < 0, -1.0, 1.0) if sums else None


def _multiply(spec: GraphSpec, stacked: dict[str, Tensor], rescaling: str, signs: Tensor) -> None:
    """Multiply the neurons of one rescaling by signs, in place."""
    for _, grid in _grids(spec, stacked, rescaling):
        grid.mul_(signs.to(grid.dtype).reshape(*signs.shape, *[1] * (grid.ndim - 2)))


def _grids(spec: GraphSpec, stacked: dict[str, Tensor], rescaling: str) -> list[tuple[int, Tensor]]:
    """The power and the values ``[batch, neurons, ...]`` of each piece that a rescaling acts on."""
    return [
        (weighing.power, piece_grid(piece, stacked[piece.parameter]).movedim(place + 1, 1))
        for piece, weighing, place in _weighed(spec, rescaling)
    ]


def _fed_by_inputs(spec: GraphSpec) -> set[str]:
    """The axes of the neurons that inputs feed."""
    return {
        axis
        for block in spec.blocks
        if spec.node_set(block.source).role == "input"
        for axis in spec.node_set(block.target).axes
    }


def _weighed(spec: GraphSpec, rescaling: str) -> Iterator[tuple[Piece, Weighing, int]]:
    """The pieces that a rescaling acts on, and where its axis stands among their factors."""
    for piece in spec.pieces:
        for weighing in piece.weighings:
            if weighing.rescaling == rescaling:
                yield piece, weighing, factor_place(spec, piece, weighing)
