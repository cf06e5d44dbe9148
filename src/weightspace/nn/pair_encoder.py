"""The first states of pairs of neurons."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.nn.edge_values import edge_values
from weightspace.nn.encode import Sizes
from weightspace.nn.fourier import FourierLinear
from weightspace.nn.networks import Networks
from weightspace.nn.pair_layout import PairLayout


class PairEncoder(nn.Module):
    """A pair's first state: its connections' weights, looked at from the target.

    Kofinas et al. 2024: random Fourier features of the weight of the connection from ``j`` to
    ``i`` through a linear map; a pair without one has zero features, so the map's bias. Of
    several connections, such as a residual beside a dense layer, the features add up.

    Args:
        sizes: the networks to be read.
        width: channels of the states.
        frequencies: of the Fourier features.
        sigma: their deviation.
    """

    def __init__(self, sizes: Sizes, *, width: int, frequencies: int, sigma: float) -> None:
        super().__init__()
        self.sizes = sizes
        channels = sizes.edge_features
        self.value = FourierLinear(channels, width, frequencies=frequencies, sigma=sigma)

    def forward(self, networks: Networks, layout: PairLayout) -> Float[Tensor, "pairs d"]:
        """Encode the pairs."""
        empty = self.value.linear.bias
        runs = networks.arrangement.runs
        if not runs:
            return empty.expand(layout.pair_count, -1).contiguous()
        channels = [self.sizes.edge_channels(run.layout) for run in runs]
        known = edge_values(networks, channels, self.value)
        if isinstance(layout.along, slice):
            return torch.cat([known, empty.expand(layout.pair_count - len(known), -1)])
        rest = empty.expand(layout.pair_count, -1)
        return rest.index_add(0, layout.along.to(known.device), known - empty)
