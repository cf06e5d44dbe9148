"""How the wired layers of a sweep are computed: fast, and the same in every run."""

from __future__ import annotations

from torch import nn

from weightspace.relational.execution import MASKED, Plan, candidates, grouped_plan
from weightspace.relational.layers import RelationalLinear
from weightspace.relational.wiring import Wiring

_LARGE = 2**26  # multiply-adds from which groups can pay
_SPARSE = 0.35  # the share of a layer's weights that groups may multiply


def settle_plans(module: nn.Module, rows: int) -> None:
    """Choose how each wired linear layer is computed by its shape alone, without measuring.

    A measured choice may fall one way or the other from run to run, and results with it, by
    rounding. So only clear cases are computed in groups: large layers of sparse graphs.

    Args:
        module: whose layers are set.
        rows: how many inputs they get at once.
    """
    for part in module.modules():
        if isinstance(part, RelationalLinear):
            part.plan = settled(part.wiring_, rows)


def settled(wiring: Wiring, rows: int) -> Plan:
    """The plan of one layer.

    >>> from weightspace.relational import ring
    >>> print(settled(Wiring.between(ring(64), 1024, 1024), 128))
    groups of 4
    >>> print(settled(Wiring.between(ring(64), 64, 64), 128))
    masked
    """
    whole = wiring.width_in * wiring.width_out
    if rows * whole < _LARGE:
        return MASKED
    hopeful = candidates(wiring, rows)
    if not hopeful or grouped_plan(wiring, hopeful[0]).outputs.products > _SPARSE * whole:
        return MASKED
    return hopeful[0]
