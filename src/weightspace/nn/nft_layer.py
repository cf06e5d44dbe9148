"""The NFT block: weights attend along their rows, their columns, and to all layers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.nn.arrangement import Arrangement
from weightspace.nn.touching import Touching, exchange


class NFTLayer(nn.Module):
    """Attention in place of the sums of an equivariant layer, then an MLP.

    Zhou et al., "Neural Functional Transformers", NeurIPS 2023, section 3. On the neurons of a
    node set lie vectors: a row of weights for each neuron they come from, a column for each they
    go to, and the biases. These attend to each other, with the inner product over the neurons,
    so that a weight hears of its row and column partners and of its siblings in the next and
    the last layer; both ends of a weight do so, and each weight and bias attends to the means of
    all layers of its network, too. Layer normalisation comes first, and an MLP follows.

    Args:
        width: channels of each weight and bias.
        heads: of each attention.
    """

    def __init__(self, width: int, *, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first = nn.ModuleDict({kind: nn.LayerNorm(width) for kind in ("node", "edge")})
        self.project = nn.ModuleDict(
            {kind: nn.Linear(width, 3 * width) for kind in ("node", "edge")}
        )
        self.ask = nn.ModuleDict({kind: nn.Linear(width, width) for kind in ("node", "edge")})
        self.layers = nn.Linear(width, 2 * width)
        self.out = nn.ModuleDict(
            {"node": nn.Linear(2 * width, width), "edge": nn.Linear(3 * width, width)}
        )
        self.mlp = nn.ModuleDict(
            {
                kind: nn.Sequential(
                    nn.LayerNorm(width),
                    nn.Linear(width, 2 * width),
                    nn.GELU(),
                    nn.Linear(2 * width, width),
                )
                for kind in ("node", "edge")
            }
        )

    def forward(
        self,
        arrangement: Arrangement,
        touches: Touching,
        nodes: Float[Tensor, "nodes d"],
        edges: Float[Tensor, "edges d"],
    ) -> tuple[Tensor, Tensor]:
        """Update the states of biases and weights."""
        of_nodes, of_edges = self.first["node"](nodes), self.first["edge"](edges)
        own, at_target, at_source = exchange(
            arrangement,
            touches,
            self.project["node"](of_nodes),
            self.project["edge"](of_edges),
            self._attend,
        )
        far_nodes, far_edges = self._to_layers(
            arrangement,
            (of_nodes, self.ask["node"](of_nodes)),
            (of_edges, self.ask["edge"](of_edges)),
        )
        nodes = nodes + _linear_of_parts(self.out["node"], [own, far_nodes])
        edges = edges + _linear_of_parts(self.out["edge"], [at_target, at_source, far_edges])
        return nodes + self.mlp["node"](nodes), edges + self.mlp["edge"](edges)

    def _attend(self, parts: list[Tensor]) -> list[Tensor]:
        """Let tokens attend to each other; their inner product is over neurons and channels.

        Args:
            parts: ``[networks, tokens, neurons, three_d]``: queries, keys and values.

        Returns:
            ``[networks, tokens, neurons, heads, d]`` for each part.
        """
        by_head = [
            part.reshape(*part.shape[:-1], 3, self.heads, -1).permute(3, 0, 4, 1, 2, 5)
            for part in parts
        ]
        queries, keys, values = torch.cat(by_head, 3).flatten(4)
        found = F.scaled_dot_product_attention(queries, keys, values)
        results = torch.split(found, [part.shape[1] for part in parts], 2)
        return [
            result.reshape(*result.shape[:-1], parts[0].shape[2], -1).permute(0, 2, 3, 1, 4)
            for result in results
        ]

    def _to_layers(
        self,
        arrangement: Arrangement,
        of_nodes: tuple[Tensor, Tensor],
        of_edges: tuple[Tensor, Tensor],
    ) -> tuple[Tensor, Tensor]:
        """Let every weight and bias attend to the means of its network's layers."""
        states = [arrangement.split(values) for values in of_nodes]
        views = [_members(arrangement, values) for values in of_edges]
        found_nodes: dict[tuple[int, int], Tensor] = {}
        found_edges: dict[tuple[int, int], Tensor] = {}
        for part in range(len(arrangement.specs)):
            here = [key for key in states[0] if key[0] == part]
            blocks = [key for key in views[0] if key[0] == part]
            means = [states[0][key].mean(1) for key in here]
            means += [views[0][key].mean(1) for key in blocks]
            layers = self.layers(torch.stack(means, 1))
            asks = [states[1][key] for key in here] + [views[1][key] for key in blocks]
            answers = torch.split(
                self._ask(torch.cat(asks, 1), layers), [ask.shape[1] for ask in asks], 1
            )
            found_nodes.update(zip(here, answers, strict=False))
            found_edges.update(zip(blocks, answers[len(here) :], strict=True))
        ordered = [found_edges[key].flatten(0, 1) for key in views[0]]
        return arrangement.join(found_nodes), torch.cat(ordered)

    def _ask(
        self,
        asks: Float[Tensor, "networks items d"],
        layers: Float[Tensor, "networks layers two_d"],
    ) -> Float[Tensor, "networks items d"]:
        queries = asks.view(*asks.shape[:-1], self.heads, -1).transpose(1, 2)
        cut = layers.view(*layers.shape[:-1], 2, self.heads, -1)
        keys, values = cut.permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(queries, keys, values).transpose(1, 2).flatten(2)


def _linear_of_parts(layer: nn.Module, parts: list[Tensor]) -> Tensor:
    """A linear map of tensors side by side, without writing them so."""
    assert isinstance(layer, nn.Linear)
    first, *rest = torch.split(layer.weight, [part.shape[-1] for part in parts], 1)
    result = F.linear(parts[0], first, layer.bias)
    for part, weight in zip(parts[1:], rest, strict=True):
        result = torch.addmm(result, part, weight.T)
    return result


def _members(
    arrangement: Arrangement, edges: Float[Tensor, "edges d"]
) -> dict[tuple[int, int], Float[Tensor, "networks edges d"]]:
    """Cut edges into those of each part's blocks, in the order of the edges."""
    found = {}
    sizes, keys = [], []
    for run in arrangement.runs:
        for member in run.members:
            spec = arrangement.specs[member.part]
            sizes.append(member.count * spec.shape_of(spec.blocks[member.block]).edges)
            keys.append(member)
    for member, rows in zip(keys, torch.split(edges, sizes), strict=True):
        found[member.part, member.block] = rows.view(member.count, -1, rows.shape[-1])
    return found
