"""The NG-GNN edge update."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import Function

from weightspace.nn.arrangement import Arrangement
from weightspace.nn.edge_maps import DirectedMap
from weightspace.nn.edge_passes import LiftedEdges
from weightspace.nn.first_derivative import first_derivative
from weightspace.nn.fusion import edge_passes
from weightspace.nn.pieces import Ends, bundled_directions


class EdgeUpdate(nn.Module):
    """Compute ``e_ij' = Linear(SiLU(W_e e_ij + W_s x_i + W_t x_j))``.

    Kofinas et al. 2024. ``Linear`` is left to the readers of the edges, see
    :meth:`weightspace.nn.edge_maps.DirectedMap.after`.

    Args:
        width: channels of node and edge states.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.edge = nn.Linear(width, width)
        self.receiver = nn.Linear(width, width, bias=False)
        self.sender = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(
        self,
        arrangement: Arrangement,
        nodes: Float[Tensor, "nodes d"],
        edges: Float[Tensor, "two edges d"],
        written: DirectedMap,
    ) -> Float[Tensor, "two edges d"]:
        """Compute the activations before the last linear map.

        Args:
            arrangement: of the batch.
            nodes: the updated node states.
            edges: the edges' states before the map ``written``.
            written: the linear map that the edges' last writer left to its readers.
        """
        lift = DirectedMap.of(self.edge).after(written)
        return edge_silu(arrangement, edges, lift, self.receiver(nodes), self.sender(nodes))


def edge_silu(
    arrangement: Arrangement,
    edges: Float[Tensor, "two edges d"],
    lift: DirectedMap,
    receivers: Float[Tensor, "nodes d"],
    senders: Float[Tensor, "nodes d"],
) -> Float[Tensor, "two edges d"]:
    """Compute ``SiLU(L e_ij + l + x_i + x_j)`` along and against, writing only the result."""
    result: Tensor = _EdgeSilu.apply(  # type: ignore[no-untyped-call]
        arrangement, edges, lift.weight, lift.bias, receivers, senders
    )
    return result


class _EdgeSilu(Function):
    @staticmethod
    def forward(  # noqa: PLR0917 (autograd passes by position)
        ctx: Any,
        arrangement: Arrangement,
        edges: Tensor,
        weight: Tensor,
        bias: Tensor,
        receivers: Tensor,
        senders: Tensor,
    ) -> Tensor:
        result = edges.new_empty(2, arrangement.edge_count, weight.shape[1])
        passes = edge_passes(edges)
        for way in bundled_directions(arrangement):
            d, own = way.index, way.run.edges
            ends = Ends.of(way, receivers, senders)
            lifted = LiftedEdges(way, edges[d, own], weight[d], bias[d], ends)
            passes.silu(lifted, result[d, own])
        ctx.save_for_backward(edges, weight, bias, receivers, senders)
        ctx.arrangement = arrangement
        return result

    @staticmethod
    @first_derivative
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        edges, weight, bias, receivers, senders = ctx.saved_tensors
        d_edges = torch.empty_like(edges, memory_format=torch.contiguous_format)
        d_weight, d_bias = torch.zeros_like(weight), torch.zeros_like(bias)
        arrangement: Arrangement = ctx.arrangement
        rows = arrangement.received_count, receivers.shape[-1]
        d_receivers, d_senders = receivers.new_empty(rows), senders.new_empty(rows)
        passes = edge_passes(edges)
        for way in bundled_directions(arrangement):
            d, own = way.index, way.run.edges
            ends = Ends.of(way, receivers, senders)
            lifted = LiftedEdges(way, edges[d, own], weight[d], bias[d], ends)
            d_map, d_ends = passes.silu_backward(lifted, grad[d, own], d_edges[d, own])
            d_weight[d] += d_map
            # every edge has one receiver, so what reaches the bias reaches the receivers
            d_bias[d] += d_ends.of_receivers.sum((0, 1))
            way.deliver(d_ends.of_receivers, d_receivers)
            way.opposite.deliver(d_ends.of_senders, d_senders)
        merged = arrangement.merge(d_receivers), arrangement.merge(d_senders)
        return None, d_edges, d_weight, d_bias, *merged
