"""Lifting the weights of all connections, whatever their kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.nn.networks import Networks

Lift = Callable[[Tensor, Sequence[int]], Tensor]
"""Maps features ``[edges, some]`` of the named channels to ``[edges, d]``."""


def edge_values(
    networks: Networks, channels: Sequence[Sequence[int]], lift: Lift
) -> Float[Tensor, "edges d"]:
    """Lift the features of all edges, those of equal channels in one step.

    Args:
        networks: the batch; it has at least one connection.
        channels: of each run's features in the common layout, see
            :meth:`weightspace.models.Requirements.edge_channels`.
        lift: works on every edge by itself.

    Returns:
        The values in the order of the edge buffer.
    """
    runs = networks.arrangement.runs
    groups: dict[tuple[int, ...], list[int]] = {}
    for place, own in enumerate(channels):
        groups.setdefault(tuple(own), []).append(place)
    found: dict[int, Tensor] = {}
    for own, places in groups.items():
        features = [networks.edge_features(runs[place]) for place in places]
        values = lift(features[0] if len(features) == 1 else torch.cat(features), own)
        if len(groups) == 1:
            return values
        parts = torch.split(values, [len(part) for part in features])
        found.update(zip(places, parts, strict=True))
    return torch.cat([found[place] for place in range(len(runs))])
