"""The update of pairs few enough for the processor's cache, forward and backward."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from weightspace.nn.keeping import Kept


class NormMaps(NamedTuple):
    """A LayerNorm's parameters."""

    weight: Tensor
    bias: Tensor


class MLPMaps(NamedTuple):
    """``x + second GELU(first(x)) + bias``, where ``first`` has been applied already."""

    first: Tensor
    second: Tensor
    bias: Tensor


class Step(NamedTuple):
    """What the backward pass needs of one residual step.

    Args:
        inputs: of the first map.
        lifted: after the first map.
        active: after GELU.
        total: the sum of states and their change.
        mean: of each row of the sum.
        rate: one over its deviation.
    """

    inputs: Tensor
    lifted: Tensor
    active: Tensor
    total: Tensor
    mean: Tensor
    rate: Tensor


class Residual(NamedTuple):
    """One residual step ``LN(x + dropout(second GELU(lifted) + bias))`` on a piece.

    Args:
        maps: the linear maps.
        norm: the LayerNorm's.
        eps: the LayerNorm's.
        kept: what dropout keeps of the whole buffer, None for all.
        rows: of the piece in the buffer.
    """

    maps: MLPMaps
    norm: NormMaps
    eps: float
    kept: Kept | None
    rows: slice

    def total(self, states: Tensor, active: Tensor) -> Tensor:
        """The states with their change."""
        change = torch.addmm(self.maps.bias, active, self.maps.second.T)
        if self.kept is None:
            return change.add_(states)
        factors = self.kept.factors(self.rows, change)
        return torch.addcmul(states, change, factors, value=self.kept.scale)

    def normed(self, total: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The normalised sum, its mean and its rate."""
        found: tuple[Tensor, Tensor, Tensor] = torch.native_layer_norm(
            total, [total.shape[1]], *self.norm, self.eps
        )
        return found

    def backward(
        self, grad: Float[Tensor, "rows d"], step: Step, grads: ResidualGrads
    ) -> tuple[Tensor, Tensor]:
        """The gradients of the states, but for the first map, and of what it gives."""
        d_total, d_weight, d_bias = torch.ops.aten.native_layer_norm_backward(
            *(grad, step.total, [grad.shape[1]], step.mean, step.rate),
            *self.norm,
            [True, True, True],
        )
        grads.norm.weight.add_(d_weight)
        grads.norm.bias.add_(d_bias)
        d_change = d_total
        if self.kept is not None:
            d_change = self.kept.factors(self.rows, d_total).mul_(d_total).mul_(self.kept.scale)
        d_active = torch.mm(d_change, self.maps.second)
        grads.maps.second.addmm_(d_change.T, step.active)
        grads.maps.bias.add_(d_change.sum(0))
        d_lifted = torch.ops.aten.gelu_backward(d_active, step.lifted)
        grads.maps.first.addmm_(d_lifted.T, step.inputs)
        return d_total, d_lifted


class ResidualGrads(NamedTuple):
    """Gradients of a residual step's parameters."""

    maps: MLPMaps
    norm: NormMaps

    @classmethod
    def like(cls, maps: MLPMaps, norm: NormMaps) -> ResidualGrads:
        """Zeros."""
        return cls(MLPMaps(*map(torch.zeros_like, maps)), NormMaps(*map(torch.zeros_like, norm)))


def lift_both(
    states: Float[Tensor, "pairs d"],
    reverse: Float[Tensor, "lead receivers senders d"],
    weight: Float[Tensor, "h two_d"],
    ends: tuple[Tensor, Tensor],
) -> tuple[Float[Tensor, "pairs two_d"], Float[Tensor, "pairs h"]]:
    """``[e_ij, e_ji]`` side by side, and their map with what both ends add."""
    width = states.shape[1]
    both = states.new_empty(len(states), 2 * width)
    both[:, :width] = states
    both.view(*reverse.shape[:3], 2 * width)[..., width:] = reverse
    lifted = torch.mm(both, weight.T)
    lifted.view(*reverse.shape[:3], -1).add_(ends[0]).add_(ends[1])
    return both, lifted


def first_step(
    residual: Residual, states: Tensor, both: Tensor, lifted: Tensor
) -> tuple[Tensor, Step]:
    """The first residual step of a piece."""
    active = F.gelu(lifted)
    total = residual.total(states, active)
    between, mean, rate = residual.normed(total)
    return between, Step(both, lifted, active, total, mean, rate)


def last_total(
    residual: Residual, first_bias: Tensor, between: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The second residual step before its norm: lifted, active, sum."""
    lifted = torch.addmm(first_bias, between, residual.maps.first.T)
    active = F.gelu(lifted)
    return lifted, active, residual.total(between, active)
