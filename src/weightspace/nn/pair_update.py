"""The update of the states of pairs."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd import Function

from weightspace.nn.first_derivative import first_derivative
from weightspace.nn.fusion import update_passes
from weightspace.nn.keeping import Kept
from weightspace.nn.pair_layout import PairLayout
from weightspace.nn.update_passes import UpdateInputs, UpdateMaps, UpdateSetting


class PairUpdate(nn.Module):
    """A pair's state from its own, its reverse's and its ends'.

    Kofinas et al. 2024, appendix on the relational transformer:
    ``e_ij <- LN(e_ij + Linear(GELU(Linear[e_ij, e_ji] + Linear x_i + Linear x_j)))``, then
    ``LN(e_ij + MLP(e_ij))`` with one hidden layer; dropout after both last linear maps.

    Args:
        nodes: channels of the node states.
        pairs: channels of the pair states.
        hidden: channels of both hidden layers.
        dropout: its rate.
    """

    def __init__(self, *, nodes: int, pairs: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.pair = nn.Linear(2 * pairs, hidden)
        self.receiver = nn.Linear(nodes, hidden, bias=False)
        self.sender = nn.Linear(nodes, hidden, bias=False)
        self.out = nn.Linear(hidden, pairs)
        self.norm = nn.LayerNorm(pairs)
        self.first, self.second = nn.Linear(pairs, hidden), nn.Linear(hidden, pairs)
        self.last_norm = nn.LayerNorm(pairs)
        self.dropout = dropout

    def forward(
        self,
        layout: PairLayout,
        nodes: Float[Tensor, "nodes n"],
        pairs: Float[Tensor, "pairs d"],
    ) -> Float[Tensor, "pairs d"]:
        """Update the pairs.

        Args:
            layout: the pairs.
            nodes: the updated node states.
            pairs: the states of the pairs.
        """
        rate = self.dropout if self.training else 0.0
        shape = pairs.shape[0], pairs.shape[1], rate
        kept = Kept.draw(*shape, pairs.device), Kept.draw(*shape, pairs.device)
        receivers = F.linear(nodes, self.receiver.weight, self.pair.bias)
        result: Tensor = _Update.apply(  # type: ignore[no-untyped-call]
            UpdateSetting(layout, kept, (self.norm.eps, self.last_norm.eps)),
            pairs,
            receivers,
            layout.senders(self.sender(nodes)),
            *(self.pair.weight, self.out.weight, self.out.bias),
            *(self.norm.weight, self.norm.bias),
            *(self.first.weight, self.second.weight, self.second.bias),
            *(self.last_norm.weight, self.last_norm.bias, self.first.bias),
        )
        return result


class _Update(Function):
    @staticmethod
    def forward(
        ctx: Any,
        setting: UpdateSetting,
        pairs: Tensor,
        receivers: Tensor,
        senders: Tensor,
        *weights: Tensor,
    ) -> Tensor:
        inputs, maps = UpdateInputs(pairs, receivers, senders), UpdateMaps(*weights)
        passes = update_passes(inputs, maps)
        result, stored = passes.forward(setting, inputs, maps)
        ctx.save_for_backward(*inputs, stored, *maps)
        ctx.others = setting, passes
        return result

    @staticmethod
    @first_derivative
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        pairs, receivers, senders, stored, *weights = ctx.saved_tensors
        setting, passes = ctx.others
        inputs, maps = UpdateInputs(pairs, receivers, senders), UpdateMaps(*weights)
        d_inputs, d_maps = passes.backward(setting, inputs, maps, stored=stored, grad=grad)
        return None, *d_inputs, *d_maps
