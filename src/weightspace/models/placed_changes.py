"""Changes of parameters given block by block, brought to the order of a batch."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from weightspace.models.trunk import Changes
from weightspace.nn.networks import Networks

Place = tuple[int, int]


def placed_changes(
    networks: Networks, channels: int, nodes: Mapping[Place, Tensor], edges: Mapping[Place, Tensor]
) -> Changes:
    """Join changes of node sets and blocks; what has none does not change.

    Args:
        networks: the batch.
        channels: at least as many as any node has features.
        nodes: ``[networks, neurons, features]`` for ``(part, node set)``.
        edges: ``[networks, groups, targets, sources, features]`` for ``(part, block)``.
    """
    arrangement = networks.arrangement
    like = next(iter({**nodes, **edges}.values()))
    filled = {}
    for s in arrangement.sections:
        own = nodes.get((s.part, s.place), like.new_zeros(s.count, s.neurons, 0))
        filled[s.part, s.place] = torch.nn.functional.pad(own, (0, channels - own.shape[-1]))
    rows = []
    for run in arrangement.runs:
        parts = []
        for member in run.members:
            spec = arrangement.specs[member.part]
            shape = spec.shape_of(spec.blocks[member.block])
            none = like.new_zeros(member.count * shape.edges, shape.features)
            found = edges.get((member.part, member.block), none)
            parts.append(found.reshape(-1, shape.features))
        rows.append(parts[0] if len(parts) == 1 else torch.cat(parts))
    return Changes(arrangement.join(filled), rows)
