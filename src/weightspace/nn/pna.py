"""The NG-GNN layer: principal neighbourhood aggregation with edge states."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.nn.film import Aggregate, film_aggregate
from weightspace.nn.plan import BlockPlan, Edges, Plan

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
        plan: Plan,
        nodes: list[Float[Tensor, "batch neurons d"]],
        film: Edges,
    ) -> list[Float[Tensor, "batch neurons d"]]:
        """Update the node states.

        Args:
            plan: the spec's blocks.
            nodes: a state tensor for each node set.
            film: ``[s, t]`` of all edges.
        """
        flat = torch.cat(nodes, dim=1)
        receive, send = self.message.weight.chunk(2, dim=1)
        receivers = torch.split(flat @ receive.T + self.message.bias, list(plan.sizes), dim=1)
        senders = torch.split(flat @ send.T, list(plan.sizes), dim=1)
        found: list[Aggregate | None] = [None] * len(nodes)
        for block, edges in zip(plan.blocks, film, strict=True):
            for place, part in _pass_messages(block, edges, receivers, senders):
                before = found[place]
                found[place] = part if before is None else before.merge(part)
        return list(torch.split(self._update(plan, flat, found), list(plan.sizes), dim=1))

    def _update(self, plan: Plan, flat: Tensor, found: list[Aggregate | None]) -> Tensor:
        statistics = []
        for aggregate, degree, size in zip(found, plan.degrees, plan.sizes, strict=True):
            if aggregate is None:
                shape = (flat.shape[0], size, AGGREGATORS * SCALERS * flat.shape[-1])
                statistics.append(flat.new_zeros(shape))
                continue
            plain = aggregate.statistics(degree)
            amplified = plain * (math.log(degree + 1) / self.delta)
            statistics.append(torch.cat([plain, amplified], dim=-1))
        features: Tensor = torch.cat([flat, torch.cat(statistics, dim=1)], dim=-1)
        updated: Tensor = self.out(self.post(features))
        return updated


def _pass_messages(
    block: BlockPlan,
    edges: tuple[Tensor, Tensor],
    receivers: tuple[Tensor, ...],
    senders: tuple[Tensor, ...],
) -> list[tuple[int, Aggregate]]:
    """Messages along a block and against it: the node sets that receive, and what."""
    groups, results = block.shape.groups, []
    directions = ((block.target, block.source, 3), (block.source, block.target, 2))
    for film, (end, other, over) in zip(edges, directions, strict=True):
        receiver = end.spread(receivers[end.place], groups).unsqueeze(over)
        sender = other.spread(senders[other.place], groups).unsqueeze(5 - over)
        part = film_aggregate(film, receiver, sender, over=over)
        results.append((end.place, Aggregate(*(end.gather(value) for value in part))))
    return results
