"""Networks in separate groups of channels: what wiring by a graph is compared with."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weightspace.errors import GraphError
from weightspace.relational import complete
from weightspace.relational.flops import count_flops
from weightspace.relational.layers import RelationalConv2d, RelationalLinear
from weightspace.relational.matching import Budget, Widths, match_widths
from weightspace.relational.networks import NetworkFamily


class SeparateLinear(nn.Conv1d):
    """A linear layer in groups of features that do not hear each other.

    >>> SeparateLinear(8, 4, 2)(torch.zeros(3, 8)).shape
    torch.Size([3, 4])
    """

    def __init__(self, width_in: int, width_out: int, groups: int, *, bias: bool = True) -> None:
        super().__init__(width_in, width_out, 1, groups=groups, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        """Map the last dimension of a matrix."""
        return super().forward(input.unsqueeze(-1)).squeeze(-1)


def grouped_network(family: NetworkFamily, groups: int, widths: Widths) -> nn.Module:
    """A network whose layers that a graph would wire are in separate groups.

    Args:
        family: of the network.
        groups: how many.
        widths: of the stages, multiples of the number of groups.

    Raises:
        GraphError: a width cannot be divided so.
    """
    module = family.module(complete(groups), widths)
    _separate(module, groups)
    return module


def match_groups(family: NetworkFamily, groups: int) -> tuple[Widths, Budget]:
    """The widths at which a network in groups costs what the dense one does.

    Raises:
        GraphError: the family's first layer cannot be divided so.
    """

    def count(units: Widths) -> int:
        with torch.device("meta"):
            module = grouped_network(family, groups, tuple(groups * unit for unit in units))
            inputs = torch.empty(1, *family.input_shape)
        return count_flops(module, inputs).total

    start = tuple(max(1, width // groups) for width in family.widths)
    units, budget = match_widths(count, start, family.baseline, rounds=family.rounds)
    return tuple(groups * unit for unit in units), budget


def _separate(module: nn.Module, groups: int) -> None:
    for name, part in module.named_children():
        if isinstance(part, (RelationalLinear, RelationalConv2d)):
            wiring = part.wiring_
            if wiring.width_in % groups or wiring.width_out % groups:
                raise GraphError(
                    f"network in {groups} groups",
                    expected=f"layers of a multiple of {groups} channels",
                    found=f"{wiring.width_in} to {wiring.width_out}",
                )
            setattr(module, name, _separated(part, groups))
        else:
            _separate(part, groups)


def _separated(part: nn.Module, groups: int) -> nn.Module:
    biased = part.bias is not None
    if isinstance(part, RelationalLinear):
        return SeparateLinear(part.in_features, part.out_features, groups, bias=biased)
    assert isinstance(part, RelationalConv2d)
    return nn.Conv2d(
        part.in_channels,
        part.out_channels,
        part.kernel_size,  # type: ignore[arg-type]
        part.stride,  # type: ignore[arg-type]
        part.padding,  # type: ignore[arg-type]
        groups=groups,
        bias=biased,
    )
