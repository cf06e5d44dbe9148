"""The NG-GNN edge update."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from weightspace.nn.arrangement import Arrangement
from weightspace.nn.edge_maps import DirectedMap
from weightspace.nn.fusion import compiled, fusing
from weightspace.nn.pieces import Buffers, Ends, bundled_directions


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
        width = weight.shape[1]
        result = edges.new_empty(2, arrangement.edge_count, width)
        silu = compiled(_fused_silu) if fusing() else _silu
        for way in bundled_directions(arrangement):
            ends = Ends.of(way, receivers, senders)
            for piece in way.pieces(width):
                rows = result[way.index, piece.edges]
                states = edges[way.index, piece.edges]
                torch.addmm(bias[way.index], states, weight[way.index].T, out=rows)
                silu(way.dense(rows), ends.receiver[piece.lead], ends.sender[piece.lead])
        ctx.save_for_backward(edges, weight, bias, receivers, senders)
        ctx.arrangement = arrangement
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        edges, weight, bias, receivers, senders = ctx.saved_tensors
        width = weight.shape[1]
        d_edges = torch.empty_like(edges, memory_format=torch.contiguous_format)
        d_weight, d_bias = torch.zeros_like(weight), torch.zeros_like(bias)
        d_receivers, d_senders = torch.zeros_like(receivers), torch.zeros_like(senders)
        backward = compiled(_fused_backward) if fusing() else _backward
        for way in bundled_directions(ctx.arrangement):
            ends, d_ends = Ends.of(way, receivers, senders), Ends.empty(way, receivers)
            buffers = Buffers(way, width, like=receivers)
            for piece in buffers.pieces:
                states, lifted = edges[way.index, piece.edges], buffers.rows(0, piece, width)
                torch.addmm(bias[way.index], states, weight[way.index].T, out=lifted)
                d_lifted, d_receiver, d_sender = backward(
                    way.dense(grad[way.index, piece.edges]),
                    way.dense(lifted),
                    ends.receiver[piece.lead],
                    ends.sender[piece.lead],
                    way.over,
                )
                d_ends.receiver[piece.lead].copy_(d_receiver)
                d_ends.sender[piece.lead].copy_(d_sender)
                rows = d_lifted.view(-1, width)
                torch.mm(rows, weight[way.index], out=d_edges[way.index, piece.edges])
                d_weight[way.index].addmm_(rows.T, states)
            # every edge has one receiver, so what reaches the bias reaches the receivers
            d_bias[way.index] += d_ends.receiver.sum((0, 1, 2))
            d_ends.add_to(way, d_receivers, d_senders)
        return None, d_edges, d_weight, d_bias, d_receivers, d_senders


Three = tuple[Tensor, Tensor, Tensor]


def _silu(lifted: Tensor, receiver: Tensor, sender: Tensor) -> None:
    """Add the ends and apply the function, in place."""
    F.silu(lifted.add_(receiver).add_(sender), inplace=True)


def _fused_silu(lifted: Tensor, receiver: Tensor, sender: Tensor) -> None:
    lifted.copy_(F.silu(lifted + receiver + sender))


def _backward(grad: Tensor, lifted: Tensor, receiver: Tensor, sender: Tensor, over: int) -> Three:
    """The gradients of the lifted states, in their place, and of the ends."""
    lifted.add_(receiver).add_(sender)
    torch.ops.aten.silu_backward.grad_input(grad, lifted, grad_input=lifted)
    return lifted, lifted.sum(over, keepdim=True), lifted.sum(3 - over, keepdim=True)


def _fused_backward(
    grad: Tensor, lifted: Tensor, receiver: Tensor, sender: Tensor, over: int
) -> Three:
    d_lifted = torch.ops.aten.silu_backward(grad, lifted + receiver + sender)
    return d_lifted, d_lifted.sum(over, keepdim=True), d_lifted.sum(3 - over, keepdim=True)
