"""Values that stand at several places of a graph, and changes of them that agree."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from weightspace.graph.binding import Parameter, Piece
from weightspace.graph.layout import Frame, piece_grid, read_piece, write_piece
from weightspace.graph.spec import EdgeBlock, GraphSpec, NodeSet

Changes = dict[str, Tensor]


class Use(NamedTuple):
    """A piece at its place.

    Args:
        is_node: whether a node set has it, not a block.
        owner: the node set's or block's name.
        frame: its axes.
        piece: the piece.
        channels: the feature channels that it fills.
    """

    is_node: bool
    owner: str
    frame: Frame
    piece: Piece
    channels: slice


def trained_changes(
    spec: GraphSpec, nodes: Mapping[str, Tensor], edges: Mapping[str, Tensor]
) -> tuple[Changes, Changes]:
    """Make changes of features changes of parameters: buffers stay, tied values change alike.

    A value that several features hold changes by the mean of their changes. So the changed
    features are those that are read from the changed parameters, and equivariant changes stay
    equivariant.

    Args:
        spec: the networks' structure.
        nodes: ``[batch, neurons, features]`` for node sets; those that are missing do not change.
        edges: ``[batch, groups, targets, sources, features]`` for blocks, the same.

    Returns:
        The changes of nodes and of edges.
    """
    changes = dict(nodes), dict(edges)
    for parameter, uses in _to_settle(spec):
        held = [use for use in uses if use.owner in changes[not use.is_node]]
        if not held:
            continue
        mean = None if parameter.buffer else _mean(spec, parameter, held, changes)
        for use in held:
            own = changes[not use.is_node]
            features = own[use.owner].clone()
            part = features[..., use.channels]
            if mean is None:
                part.zero_()
            else:
                part.copy_(read_piece(spec, use.frame, use.piece, mean).reshape(part.shape))
            own[use.owner] = features
    return changes


def _mean(
    spec: GraphSpec, parameter: Parameter, uses: list[Use], changes: tuple[Changes, Changes]
) -> Tensor:
    """The mean change of each value of a parameter over the places that hold it."""
    total = count = torch.zeros(())
    for use in uses:
        features = changes[not use.is_node][use.owner][..., use.channels]
        if use.is_node:
            features = features[:, None, :, None, :]
        written = features.new_zeros(features.shape[0], *parameter.shape)
        write_piece(spec, use.frame, use.piece, features, written)
        places = features.new_zeros(1, *parameter.shape)
        piece_grid(use.piece, places).fill_(1.0)
        total, count = total.to(written) + written, count.to(places) + places
    return total / count.clamp(min=1)


@lru_cache(maxsize=256)
def _to_settle(spec: GraphSpec) -> tuple[tuple[Parameter, tuple[Use, ...]], ...]:
    """The parameters whose changes cannot be taken as they are, with all their uses."""
    found: dict[str, list[Use]] = {}
    owners: tuple[NodeSet | EdgeBlock, ...] = (*spec.node_sets, *spec.blocks)
    for owner in owners:
        is_node, start = isinstance(owner, NodeSet), 0
        frame = Frame.of_nodes(owner) if isinstance(owner, NodeSet) else Frame.of_block(spec, owner)
        for piece in owner.pieces:
            channels = slice(start, start + piece.features)
            start = channels.stop
            found.setdefault(piece.parameter, []).append(
                Use(is_node, owner.name, frame, piece, channels)
            )
    return tuple(
        (parameter, tuple(uses))
        for parameter in spec.parameters
        if (uses := found.get(parameter.name, []))
        and (parameter.buffer or _shared(parameter, uses))
    )


def _shared(parameter: Parameter, uses: list[Use]) -> bool:
    """Whether features stand for fewer values: pieces that overlap, or are broadcast."""
    broadcast = any(
        (side, axis) not in {(f.side, f.axis) for f in use.piece.factors}
        for use in uses
        for side, axis in use.frame.slots
    )
    return broadcast or (len(uses) > 1 and _overlap(parameter, uses))


def _overlap(parameter: Parameter, uses: list[Use]) -> bool:
    """Whether two pieces hold the same value."""
    count = torch.zeros(1, *parameter.shape, dtype=torch.int16)
    for use in uses:
        piece_grid(use.piece, count).add_(1)
    return bool((count > 1).any())
