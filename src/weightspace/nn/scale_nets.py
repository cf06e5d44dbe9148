"""Nets of node states that carry a factor: what does not notice it, and what carries it on."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.nn.marks import Marks


def linear_map(inputs: int, outputs: int) -> nn.Linear:
    """A linear map without bias, which would not carry factors, that keeps variances."""
    layer = nn.Linear(inputs, outputs, bias=False)
    nn.init.kaiming_normal_(layer.weight, nonlinearity="linear")
    return layer


def gate_map(inputs: int, outputs: int) -> nn.Linear:
    """A linear map of invariants to gates, around one at first."""
    layer = nn.Linear(inputs, outputs)
    nn.init.ones_(layer.bias)
    return layer


def mean_square(states: Float[Tensor, "nodes d"]) -> Float[Tensor, "nodes 1"]:
    """The mean square over channels."""
    return states.square().mean(-1, keepdim=True)


class Invariant(nn.Module):
    """What of a node's states does not notice its factor.

    Kalogeropoulos et al. 2024, section 4: states are divided by their norm where scales act,
    and ``phi(x) + phi(-x)`` is taken where signs act; then an MLP::

        a = W x / |x|,  h = f(T u + t + a) + f(T u + t - a),  f(L h + l),  f = SiLU

    The norm is the root of the mean square over channels; where no scales act 1 is added to
    that, which keeps what is invariant bounded. Where no signs act the first part of ``h``
    remains. A state of zero stays zero, and passes no gradient through the norm.

    Args:
        inputs: channels of the states.
        width: channels of what is known of a node otherwise, and of the result.
        dropout: rate of the result's channels.
    """

    def __init__(self, inputs: int, width: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.states = linear_map(inputs, width)
        self.given = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.dropout = dropout

    def forward(
        self, marks: Marks, states: Float[Tensor, "nodes inputs"], given: Float[Tensor, "nodes d"]
    ) -> Float[Tensor, "nodes d"]:
        """Compute the invariants.

        Args:
            marks: which nodes signs and scales act on.
            states: carry the nodes' factors.
            given: what is known of the nodes otherwise, which does not.
        """
        argument = self.states(without_scale(marks, states))
        known = self.given(given)
        sign = marks.sign.to(states)
        hidden = F.silu(known + argument) + sign * F.silu(known - argument)
        return F.dropout(F.silu(self.out(hidden)), self.dropout, self.training)


def without_scale(marks: Marks, states: Float[Tensor, "nodes d"]) -> Float[Tensor, "nodes d"]:
    """States divided by their norm, which is at least one where no scales act."""
    square = mean_square(states) + (1 - marks.scale.to(states))
    found = square > 0
    return states * torch.where(found, torch.where(found, square, 1).rsqrt(), 0)


def settled(marks: Marks, states: Float[Tensor, "nodes d"]) -> Float[Tensor, "nodes d"]:
    """States divided by the root of their mean square where no scales act.

    Signs and plain nodes pass through it; a scale would be lost.
    """
    inverse = (mean_square(states) + 1e-6).rsqrt()
    return states * torch.where(marks.scale.to(states) > 0, 1, inverse)


class Equivariant(nn.Module):
    """Carries a node's factor on: ``(Gamma x) * (C inv(x) + c)``.

    Kalogeropoulos et al. 2024, section 4. The linear map has no bias.

    Args:
        inputs: channels of the states.
        outputs: channels of the result.
        width: channels of the invariants.
        dropout: rate of the invariants.
    """

    def __init__(self, inputs: int, outputs: int, *, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.linear = linear_map(inputs, outputs)
        self.invariant = Invariant(inputs, width, dropout=dropout)
        self.gate = gate_map(width, outputs)

    def forward(
        self, marks: Marks, states: Float[Tensor, "nodes inputs"], given: Float[Tensor, "nodes d"]
    ) -> Float[Tensor, "nodes outputs"]:
        """Map the states."""
        result: Tensor = self.linear(states) * self.gate(self.invariant(marks, states, given))
        return result
