"""Canonical signs: one representative of the networks that differ in neurons' signs."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from weightspace.graph.binding import Piece, Side
from weightspace.graph.layout import piece_grid
from weightspace.graph.settling import own_copies, settled_factors
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
        Tensors of the same functions, to the bit but for the order of sums; those that no sign
        acts on are the given ones.

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
    flips = [rescaling for rescaling in spec.rescalings if rescaling.kind == "sign"]
    if not flips or not _has_two_sides(spec):
        return settled_factors(spec, stacked, "sign")
    touched = {piece.parameter for flip in flips for piece, _, _ in _weighed(spec, flip.name)}
    result, applied = own_copies(stacked, touched)
    fed = _fed_by_inputs(spec)
    first = [rescaling for rescaling in flips if rescaling.axis in fed]
    then = [rescaling for rescaling in flips if rescaling.axis not in fed]
    for rescaling in [*first, *reversed(then)]:
        judges: Side = "target" if rescaling.axis in fed else "source"
        signs = _signs(spec, result, rescaling.name, judges=judges)
        if signs is not None:
            _multiply(spec, result, rescaling.name, signs)
            _multiply(spec, applied, rescaling.name, signs)
    for item in spec.left_out:
        if item.same_as is not None:
            for tensors in (result, applied):
                tensors[item.parameter.name] = tensors[item.same_as]
    return result, applied


def _has_two_sides(spec: GraphSpec) -> bool:
    """Whether every weight that signs act on is wholly incoming or outgoing for each of them.

    It is not on norms and depthwise kernels, and on weights within a residual stream.
    """
    for rescaling in spec.rescalings:
        held = [(p.parameter, p.cells, side) for p, side, _ in _weighed(spec, rescaling.name)]
        one_side = len({(name, cells) for name, cells, _ in held}) == len(set(held))
        if rescaling.kind == "sign" and (not one_side or any(h[2] == "shared" for h in held)):
            return False
    return True


def _signs(
    spec: GraphSpec, stacked: dict[str, Tensor], rescaling: str, *, judges: Side
) -> Tensor | None:
    """The signs of one rescaling's neurons, ``[batch, neurons]``, or None if nothing judges.

    Args:
        spec: the networks' structure.
        stacked: their tensors.
        rescaling: its name.
        judges: "target" to judge by incoming weights, "source" by outgoing ones.
    """
    # biases have no dimension beside batch and neurons, and do not judge
    sums = [
        grid.flatten(2).sum(-1)
        for side, grid in _grids(spec, stacked, rescaling)
        if side == judges and grid.ndim > 2
    ]
    return torch.where(torch.stack(sums).sum(0) < 0, -1.0, 1.0) if sums else None


def _multiply(spec: GraphSpec, stacked: dict[str, Tensor], rescaling: str, signs: Tensor) -> None:
    """Multiply the neurons of one rescaling by signs, in place."""
    for _, grid in _grids(spec, stacked, rescaling):
        grid.mul_(signs.to(grid.dtype).reshape(*signs.shape, *[1] * (grid.ndim - 2)))


def _grids(
    spec: GraphSpec, stacked: dict[str, Tensor], rescaling: str
) -> list[tuple[Side, Tensor]]:
    """The side and the values ``[batch, neurons, ...]`` of each piece that a rescaling acts on."""
    return [
        (side, piece_grid(piece, stacked[piece.parameter]).movedim(place + 1, 1))
        for piece, side, place in _weighed(spec, rescaling)
    ]


def _fed_by_inputs(spec: GraphSpec) -> set[str]:
    """The axes of the neurons that inputs feed."""
    return {
        axis
        for block in spec.blocks
        if spec.node_set(block.source).role == "input"
        for axis in spec.node_set(block.target).axes
    }


def _weighed(spec: GraphSpec, rescaling: str) -> Iterator[tuple[Piece, Side, int]]:
    """The pieces that a rescaling acts on, on which side, and where its neurons stand in them.

    Values that several pieces hold, such as tied weights, are named once.
    """
    seen: set[object] = set()
    for piece in spec.pieces:
        key = (piece.parameter, piece.cells)
        if key in seen:
            continue
        seen.add(key)
        for weighing in piece.weighings:
            if weighing.rescaling == rescaling:
                place = factor_place(spec, piece, weighing)
                yield piece, piece.factors[place].side, place
