"""The NG-GNN edge update."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import Function

from weightspace.nn.arrangement import Arrangement
from weightspace.nn.edge_maps import DirectedMap
from weightspace.nn.edge_passes import EdgeInputs
from weightspace.nn.first_derivative import first_derivative
from weightspace.nn.fusion import edge_passes


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
    def forward(ctx: Any, arrangement: Arrangement, *tensors: Tensor) -> Tensor:
        given = EdgeInputs(arrangement, *tensors)
        ctx.save_for_backward(*tensors)
        ctx.arrangement = arrangement
        return edge_passes(given.edges).silu(given)

    @staticmethod
    @first_derivative
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        given = EdgeInputs(ctx.arrangement, *ctx.saved_tensors)
        found = edge_passes(given.edges).silu_backward(given, grad)
        return None, *found.in_order(given.arrangement)
