"""The NG-GNN edge update."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from weightspace.nn.cached_parts import cached_parts
from weightspace.nn.fusion import compiled, fusing
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
        nodes: Float[Tensor, "batch neurons d"],
        lifted: Edges,
        bias: Float[Tensor, " d"],
    ) -> Edges:
        """Compute the activations before the last linear map.

        Args:
            plan: the spec's blocks.
            nodes: the updated states of all node sets, one after the other.
            lifted: ``W_e e_ij`` without its bias, for all edges.
            bias: that bias; it is added to the nodes' part, which is far smaller.
        """
        receivers = plan.split(self.receiver(nodes) + bias)
        senders = plan.split(self.sender(nodes))
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
        ctx.fused = fusing()
        if ctx.fused:
            ctx.save_for_backward(edges, target, source)
            fused: Tensor = compiled(_fused_forward)(edges, target, source)
            return fused
        total, result = torch.empty_like(edges), torch.empty_like(edges)
        for part in cached_parts(len(edges), edges[0].numel()):
            torch.add(edges[part], target[part], out=total[part])
            total[part].add_(source[part])
            torch.ops.aten.silu.out(total[part], out=result[part])
        ctx.save_for_backward(total)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if ctx.fused:
            fused: tuple[Tensor, Tensor, Tensor] = compiled(_fused_backward)(
                grad, *ctx.saved_tensors
            )
            return fused
        (total,) = ctx.saved_tensors
        d_edges = torch.empty_like(total)
        d_target = total.new_empty(*total.shape[:3], 1, total.shape[4])
        d_source = total.new_empty(*total.shape[:2], 1, *total.shape[3:])
        for part in cached_parts(len(total), total[0].numel()):
            torch.ops.aten.silu_backward.grad_input(
                grad[part], total[part], grad_input=d_edges[part]
            )
            torch.sum(d_edges[part], 3, keepdim=True, out=d_target[part])
            torch.sum(d_edges[part], 2, keepdim=True, out=d_source[part])
        return d_edges, d_target, d_source


def _fused_forward(edges: Tensor, target: Tensor, source: Tensor) -> Tensor:
    return F.silu(edges + target + source)


def _fused_backward(
    grad: Tensor, edges: Tensor, target: Tensor, source: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    d_edges = torch.ops.aten.silu_backward(grad, edges + target + source)
    return d_edges, d_edges.sum(3, keepdim=True), d_edges.sum(2, keepdim=True)
