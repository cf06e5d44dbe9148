"""Readouts that several papers share."""

from __future__ import annotations

from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.models.trunk import Readout
from weightspace.nn.networks import Networks


class NodeState(Protocol):
    """A state that has node states."""

    @property
    def nodes(self) -> Tensor: ...  # noqa: D102


class OutputNodes(Readout):
    """The states of the output nodes, concatenated, through an MLP.

    Kofinas et al. 2024: output neurons are not exchangeable, so nothing needs to be pooled.

    Args:
        outputs: output neurons of a network.
        width: channels of the node states, and of the hidden layers.
        layers: hidden layers.
    """

    def __init__(self, outputs: int, width: int, *, layers: int) -> None:
        super().__init__(width)
        sizes = [outputs * width, *[width] * layers]
        steps: list[nn.Module] = []
        for place in range(layers):
            steps += [nn.Linear(sizes[place], sizes[place + 1]), nn.SiLU()]
        self.mlp = nn.Sequential(*steps)

    def forward(self, networks: Networks, state: NodeState) -> Float[Tensor, "batch width"]:
        """Read the output nodes."""
        ends = networks.arrangement.by_role(state.nodes, "output")
        rows = torch.cat([end.flatten(1) for end in ends])
        pooled: Tensor = self.mlp(networks.in_order(rows))
        return pooled
