"""Rescalings that networks may have whose activation functions their files do not tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from weightspace.graph import EdgeBlock, GraphSpec, NodeSet, Piece, Rescaling, Weighing
from weightspace.graph.axis import RescalingKind


@lru_cache(maxsize=256)
def freed(spec: GraphSpec, kinds: tuple[RescalingKind, ...]) -> GraphSpec:
    """A spec whose neurons with unknown activation may also be rescaled.

    A bare checkpoint does not say whether ReLU stands between its layers, whose neurons may be
    scaled, or tanh, whose neurons may change sign. For finding copies both are tried. Only
    neurons that matrices enter and leave, or that leave a norm, are freed: a norm behind them
    would have statistics of its own. Specs of known activations are given back as they are.

    Args:
        spec: of a network.
        kinds: the rescalings that are assumed.

    >>> from weightspace.graph import chain_spec
    >>> freed(chain_spec([2, 3, 1], activations="unknown"), ("scale",)).rescalings
    (Rescaling(name='0 scale', axis='0', kind='scale'),)
    """
    places = [node_set for node_set in spec.node_sets if _can_be_freed(spec, node_set)]
    for kind in kinds:
        for node_set in places:
            spec = _with_rescaling(spec, node_set.name, node_set.axes[0], kind)
    return spec


def _can_be_freed(spec: GraphSpec, node_set: NodeSet) -> bool:
    if node_set.role != "hidden" or node_set.activation.name != "unknown":
        return False
    if len(node_set.axes) != 1 or spec.axis(node_set.axes[0]).within is not None:
        return False
    axis = node_set.axes[0]
    entering = [block for block in spec.blocks if block.target == node_set.name]
    leaving = [block for block in spec.blocks if block.source == node_set.name]
    return (
        all(_touches(block, axis, ("target", "shared")) for block in entering)
        and all(block.kind == "dense" and _touches(block, axis, ("source",)) for block in leaving)
        and bool(entering)
        and bool(leaving)
    )


def _touches(block: EdgeBlock, axis: str, sides: Sequence[str]) -> bool:
    """Whether every piece of a block has the axis once, on one of some sides."""
    found = [[f.side for f in piece.factors if f.axis == axis] for piece in block.pieces]
    return bool(found) and all(len(s) == 1 and s[0] in sides for s in found)


def _with_rescaling(spec: GraphSpec, node_set: str, axis: str, kind: RescalingKind) -> GraphSpec:
    name = f"{node_set} {kind}"
    statistics = {parameter.name for parameter in spec.parameters if parameter.buffer}

    def weighed(pieces: tuple[Piece, ...], power: int) -> tuple[Piece, ...]:
        return tuple(
            piece if piece.parameter in statistics else _weighed(piece, name, axis, power)
            for piece in pieces
        )

    node_sets = tuple(
        replace(n, pieces=weighed(n.pieces, 1)) if n.name == node_set else n for n in spec.node_sets
    )
    blocks = tuple(
        replace(b, pieces=weighed(b.pieces, 1 if b.target == node_set else -1))
        if node_set in (b.source, b.target)
        else b
        for b in spec.blocks
    )
    rescalings = (*spec.rescalings, Rescaling(name, axis, kind))
    return replace(spec, node_sets=node_sets, blocks=blocks, rescalings=rescalings)


def _weighed(piece: Piece, rescaling: str, axis: str, power: int) -> Piece:
    dimension = next(
        place
        for place, span in enumerate(piece.spans)
        if any(factor.axis == axis for factor in span.factors)
    )
    return replace(piece, weighings=(*piece.weighings, Weighing(rescaling, dimension, power)))
