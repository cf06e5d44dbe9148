"""The NG-GNN layer: principal neighbourhood aggregation with edge states."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.nn.arrangement import Arrangement
from weightspace.nn.deferred_film import DeferredEdges
from weightspace.nn.edge_maps import DirectedMap
from weightspace.nn.film import film_aggregate

AGGREGATORS, SCALERS = 4, 2


class PNALayer(nn.Module):
    """Message passing over all blocks, both directions together.

    Kofinas et al. 2024 with Corso et al. 2020 (PNA): messages
    ``m_ij = s_ij * Linear([x_i, x_j]) + t_ij`` with ``[s, t] = Linear(e_ij)``; the mean,
    minimum, maximum and deviation over all neighbours, each also amplified by
    ``log(degree + 1) / delta``; then ``x_i' = Linear(Linear([x_i, aggregates]))``.

    Args:
        width: channels of node and edge states.
        delta: the mean of ``log(degree + 1)`` over the training networks' nodes.
    """

    delta: Tensor

    def __init__(self, width: int, *, delta: float) -> None:
        super().__init__()
        self.film = nn.Linear(width, 2 * width)
        self.message = nn.Linear(2 * width, width)
        self.post = nn.Linear((1 + AGGREGATORS * SCALERS) * width, width)
        self.out = nn.Linear(width, width)
        self.register_buffer("delta", torch.tensor(delta))

    def forward(
        self,
        arrangement: Arrangement,
        nodes: Float[Tensor, "nodes d"],
        edges: Float[Tensor, "two edges d"] | DeferredEdges,
        written: DirectedMap,
    ) -> Float[Tensor, "nodes d"]:
        """Update the node states.

        Args:
            arrangement: of the batch.
            nodes: the states of all nodes.
            edges: the edges' states before the map ``written``, stored or deferred.
            written: the linear map that the edges' last writer left to its readers.
        """
        receive, send = self.message.weight.chunk(2, dim=1)
        film = DirectedMap.of(self.film).after(written)
        ends = F.linear(nodes, receive, self.message.bias), F.linear(nodes, send)
        if isinstance(edges, Tensor):
            found = film_aggregate(arrangement, edges, film, *ends)
        else:
            found = edges.film_aggregate(film, *ends)
        degrees = arrangement.degrees.to(nodes)
        plain = found.statistics(degrees.clamp_min(1))
        amplified = plain * (torch.log(degrees + 1) / self.delta)
        updated: Tensor = self.out(self.post(torch.cat([nodes, plain, amplified], dim=-1)))
        return updated
