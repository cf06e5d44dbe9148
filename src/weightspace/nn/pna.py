"""The NG-GNN layer: principal neighbourhood aggregation with edge states."""

from __future__ import annotations

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
        self, plan: Plan, nodes: Float[Tensor, "batch neurons d"], film: Edges
    ) -> Float[Tensor, "batch neurons d"]:
        """Update the node states.

        Args:
            plan: the spec's blocks.
            nodes: the states of all node sets, one after the other.
            film: ``[s, t]`` of all edges.
        """
        receive, send = self.message.weight.chunk(2, dim=1)
        receivers = plan.split(nodes @ receive.T + self.message.bias)
        senders = plan.split(nodes @ send.T)
        found: list[Aggregate | None] = [None] * len(plan.sizes)
        for block, edges in zip(plan.blocks, film, strict=True):
            for place, part in _pass_messages(block, edges, receivers, senders):
                before = found[place]
                found[place] = part if before is None else before.merge(part)
        degrees = plan.degree_column(nodes)
        plain = _join(found, plan, nodes).statistics(degrees.clamp_min(1))
        amplified = plain * (torch.log(degrees + 1) / self.delta)
        updated: Tensor = self.out(self.post(torch.cat([nodes, plain, amplified], dim=-1)))
        return updated


def _join(found: list[Aggregate | None], plan: Plan, nodes: Tensor) -> Aggregate:
    """The aggregates of all node sets, one after the other; zero where nothing arrives."""
    none = [nodes.new_zeros(len(nodes), size, nodes.shape[-1]) for size in plan.sizes]
    parts = [
        Aggregate(*[zero] * 4) if part is None else part
        for part, zero in zip(found, none, strict=True)
    ]
    return Aggregate(*(torch.cat(values, dim=1) for values in zip(*parts, strict=True)))


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
