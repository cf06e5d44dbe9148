"""The NG-GNN edge update."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from weightspace.nn.plan import Edges, Plan


class EdgeUpdate(nn.Module):
    """Compute ``e_ij' = Linear(SiLU(W_e e_ij + W_s x_i + W_t x_j))``.

    Kofinas et al. 2024. ``W_e e_ij`` comes from outside and ``Linear`` is left to the readers,
    see :meth:`weightspace.nn.edge_maps.LinearMap.after`.

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
        plan: Plan,
        nodes: list[Float[Tensor, "batch neurons d"]],
        lifted: Edges,
        bias: Float[Tensor, " d"],
    ) -> Edges:
        """Compute the activations before the last linear map.

        Args:
            plan: the spec's blocks.
            nodes: the updated node states.
            lifted: ``W_e e_ij`` without its bias, for all edges.
            bias: that bias; it is added to the nodes' part, which is far smaller.
        """
        flat = torch.cat(nodes, dim=1)
        receivers = torch.split(self.receiver(flat) + bias, list(plan.sizes), dim=1)
        senders = torch.split(self.sender(flat), list(plan.sizes), dim=1)
        updated = []
        for block, (along, against) in zip(plan.blocks, lifted, strict=True):
            target, source = block.target, block.source
            both = []
            for edges, to_target, to_source in (
                (along, receivers, senders),
                (against, senders, receivers),
            ):
                at_target = target.spread(to_target[target.place], block.shape.groups)
                at_source = source.spread(to_source[source.place], block.shape.groups)
                both.append(pair_silu(edges, at_target.unsqueeze(3), at_source.unsqueeze(2)))
            updated.append((both[0], both[1]))
        return updated


def pair_silu(
    edges: Float[Tensor, "batch groups targets sources d"],
    target: Float[Tensor, "batch groups targets 1 d"],
    source: Float[Tensor, "batch groups 1 sources d"],
) -> Float[Tensor, "batch groups targets sources d"]:
    """Compute ``SiLU(e_ij + x_i + x_j)`` with one temporary.

    >>> one = torch.ones(1, 1, 2, 3, 4)
    >>> pair_silu(one, one[:, :, :, :1], one[:, :, :1]).shape
    torch.Size([1, 1, 2, 3, 4])
    """
    result: Tensor = _PairSilu.apply(edges, target, source)  # type: ignore[no-untyped-call]
    return result


class _PairSilu(Function):
    @staticmethod
    def forward(ctx: Any, edges: Tensor, target: Tensor, source: Tensor) -> Tensor:
        total = (edges + target).add_(source)
        ctx.save_for_backward(total)
        return F.silu(total)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        (total,) = ctx.saved_tensors
        d_edges = torch.ops.aten.silu_backward(grad, total)
        return d_edges, d_edges.sum(3, keepdim=True), d_edges.sum(2, keepdim=True)
