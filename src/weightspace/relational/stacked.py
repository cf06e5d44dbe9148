"""Many networks wired by different graphs, trained at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.errors import GraphError
from weightspace.relational.graph import RelationalGraph
from weightspace.relational.layers import RelationalLinear
from weightspace.relational.networks import mlp_family


class StackedRelationalMLP(nn.Module):
    """The wired perceptrons of many graphs in batched products.

    Each is the network that :func:`mlp_family` makes: a dense stem, wired layers with batch
    norm and rectifiers, a dense head. The networks share inputs and learn independently, for
    the sum of their losses has independent gradients. Small networks gain, since one product
    of many matrices replaces many products with the overhead of each.

    Args:
        graphs: one for each network, of as many nodes.
        inputs: the number of input features.
        outputs: the number of classes.
        width: of all hidden layers.
        layers: how many are wired.
        seeds: of each network's initialisation; 0, 1, ... if not given.

    Raises:
        GraphError: there are no graphs, or too many nodes for the width.

    >>> from weightspace.relational import complete, ring
    >>> stack = StackedRelationalMLP([ring(8), complete(8)], inputs=4, outputs=3, width=16)
    >>> stack(torch.zeros(5, 4)).shape
    torch.Size([2, 5, 3])
    """

    def __init__(
        self,
        graphs: Sequence[RelationalGraph],
        *,
        inputs: int,
        outputs: int,
        width: int,
        layers: int = 3,
        seeds: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        if not graphs:
            raise GraphError("graphs", expected="at least one", found="none")
        family = mlp_family(inputs=inputs, outputs=outputs, width=width, layers=layers)
        self.family = family
        self.graphs = tuple(graphs)
        networks = []
        for number, graph in enumerate(graphs):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(number if seeds is None else seeds[number])
                networks.append(family.module(graph))
        linear = [[p for p in net if isinstance(p, nn.Linear)] for net in networks]  # type: ignore[attr-defined]
        columns: list[Any] = list(zip(*linear, strict=True))
        self.weights = nn.ParameterList(
            torch.stack([part.weight.detach().t() for part in column]) for column in columns
        )
        for number, column in enumerate(columns):
            if isinstance(column[0], RelationalLinear):
                mask = torch.stack([part.mask.t() for part in column])
                self.register_buffer(f"mask_{number}", mask, persistent=False)
        count = len(networks)
        self.norms = nn.ModuleList(nn.BatchNorm1d(count * width) for _ in range(layers + 1))
        self.bias = nn.Parameter(
            torch.stack([part.bias.detach() for part in columns[-1]]).unsqueeze(1)
        )

    def forward(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "graphs batch outputs"]:
        """The outputs of every network for the same inputs."""
        y = x.flatten(1).expand(len(self.graphs), -1, -1)
        last = len(self.weights) - 1
        for number, weight in enumerate(self.weights):
            mask = getattr(self, f"mask_{number}", None)
            wired = weight if mask is None else weight * mask
            if number == last:
                return torch.baddbmm(self.bias, y, wired)
            y = torch.relu(self._normed(torch.bmm(y, wired), self.norms[number]))
        return y

    def _normed(self, y: Tensor, norm: nn.Module) -> Tensor:
        """Batch norm of every network's every channel by itself."""
        graphs, batch, width = y.shape
        flat = norm(y.transpose(0, 1).reshape(batch, graphs * width))
        result: Tensor = flat.view(batch, graphs, width).transpose(0, 1)
        return result

    @torch.no_grad()
    def network(self, number: int) -> nn.Module:
        """One network by itself, with the weights it has now.

        Args:
            number: of its graph.
        """
        net: Any = self.family.module(self.graphs[number])
        linear = [part for part in net if isinstance(part, nn.Linear)]
        for part, weight in zip(linear, self.weights, strict=True):
            part.weight.copy_(weight[number].t())
        linear[-1].bias.copy_(self.bias[number, 0])
        own = slice(number * len(linear[0].weight), (number + 1) * len(linear[0].weight))
        norms = [part for part in net if isinstance(part, nn.BatchNorm1d)]
        for own_norm, norm in zip(norms, self.norms, strict=True):
            for name, value in norm.state_dict().items():
                getattr(own_norm, name).copy_(value[own] if value.dim() else value)
        single: nn.Module = net.train(self.training)
        return single
