"""Readouts that several papers share."""

from __future__ import annotations

from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.models.trunk import Readout
from weightspace.nn.arrangement import Arrangement
from weightspace.nn.networks import Networks


class NodeState(Protocol):
    """A state that has node states."""

    @property
    def nodes(self) -> Tensor: ...  # noqa: D102


class OutputNodes(Readout):
    """The states of the output nodes, concatenated, through an MLP.

    Kofinas et al. 2024: output neurons are not exchangeable, so nothing needs to be pooled.
    Networks whose outputs are summed away have no output neurons: of those, the mean over all
    neurons is read instead.

    Args:
        outputs: output neurons of a network; may be 0.
        width: channels of the node states, and of the hidden layers.
        layers: hidden layers.
    """

    def __init__(self, outputs: int, width: int, *, layers: int) -> None:
        super().__init__(width)
        self.outputs = outputs
        sizes = [max(outputs, 1) * width, *[width] * layers]
        steps: list[nn.Module] = []
        for place in range(layers):
            steps += [nn.Linear(sizes[place], sizes[place + 1]), nn.SiLU()]
        self.mlp = nn.Sequential(*steps)

    def forward(self, networks: Networks, state: NodeState) -> Float[Tensor, "batch width"]:
        """Read the output nodes."""
        arrangement = networks.arrangement
        if self.outputs:
            ends = arrangement.by_role(state.nodes, "output")
            rows = torch.cat([end.flatten(1) for end in ends])
        else:
            rows = torch.cat([own.mean(dim=1) for own in _all_nodes(arrangement, state.nodes)])
        pooled: Tensor = self.mlp(networks.in_order(rows))
        return pooled


def _all_nodes(arrangement: Arrangement, nodes: Tensor) -> list[Tensor]:
    """The states of all nodes, ``[networks, neurons, d]`` for each part."""
    states = arrangement.split(nodes)
    return [
        torch.cat([states[part, place] for place in range(len(spec.node_sets))], dim=1)
        for part, spec in enumerate(arrangement.specs)
    ]
