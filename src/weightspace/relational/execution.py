"""How the product of a wired layer is computed: as a masked dense one, or in groups.

All ways give the same numbers up to rounding. The fastest for a shape is measured once in a
process; a way set by hand, for a layer or for a block of code, makes results repeatable to
the bit.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from weightspace.errors import ModelError
from weightspace.relational.grouped import GroupedLinear
from weightspace.relational.grouping import Side
from weightspace.relational.ordering import clustered_order
from weightspace.relational.wiring import Wiring

_log = logging.getLogger(__name__)

_SMALL = 2**23  # below so many multiply-adds no way beats a masked product
_HOPELESS = 0.72  # groups that multiply a larger share of the weights are not measured
_WORTH = 0.97  # groups must take at most this share of the masked product's time
_MEASURED = 7  # so many candidates are measured
_REPEATS = 7
_LONG_RUN = 48
_FEW_ROWS = 512


@dataclass(frozen=True)
class Plan:
    """A way to compute a wired layer.

    Args:
        group: how many nodes are computed together over the union of their neighbourhoods; 1
            is block-sparse, every node for itself; 0 is the whole layer, masked.
        ordered: whether nodes are brought into an order that makes the unions small.
        in_place: whether long runs of channels are read where they stand, not gathered.
        rows: how many inputs are multiplied at once, 0 for all.

    Raises:
        ModelError: a number is negative.

    >>> print(MASKED, BLOCK_SPARSE, Plan(4, ordered=True))
    masked block-sparse groups of 4, ordered
    """

    group: int = 0
    ordered: bool = False
    in_place: bool = False
    rows: int = 0

    def __post_init__(self) -> None:
        if self.group < 0:
            raise ModelError("plan", expected="groups of 0 or more nodes", found=str(self.group))
        if self.rows < 0:
            raise ModelError("plan", expected="0 or more rows at once", found=str(self.rows))

    def __str__(self) -> str:
        if self.group == 0:
            return "masked"
        name = "block-sparse" if self.group == 1 else f"groups of {self.group}"
        options = [", ordered"] * self.ordered + [", in place"] * self.in_place
        options += [f", {self.rows} rows at once"] * (self.rows > 0)
        return name + "".join(options)


MASKED = Plan()
BLOCK_SPARSE = Plan(1)
AUTO: Literal["auto"] = "auto"
Choice = Plan | Literal["auto"]

_fixed: contextvars.ContextVar[Plan | None] = contextvars.ContextVar("plan", default=None)


@contextlib.contextmanager
def fixed_plan(plan: Plan) -> Iterator[None]:
    """Compute all layers that would choose for themselves in one way.

    >>> with fixed_plan(MASKED):
    ...     pass
    """
    token = _fixed.set(plan)
    try:
        yield
    finally:
        _fixed.reset(token)


def wired_linear(
    x: Float[Tensor, "*batch in"],
    weight: Float[Tensor, "out in"],
    bias: Float[Tensor, "out"] | None,
    mask: Float[Tensor, "out in"],
    *,
    wiring: Wiring,
    plan: Choice = AUTO,
) -> Float[Tensor, "*batch out"]:
    """A linear layer in which only wired channels are connected.

    Args:
        x: the inputs.
        weight: of the layer; what stands outside the wiring has no effect.
        bias: of the layer, or None.
        mask: the wiring's, in the weight's type.
        wiring: of the layer.
        plan: how to compute it, or ``"auto"``.
    """
    chosen = MASKED if masked_only(x, weight) else resolve(plan, wiring, x)
    if chosen.group == 0:
        return F.linear(x, weight * mask, bias)
    rows = x.reshape(-1, x.shape[-1])
    y = grouped_plan(wiring, chosen)(rows, weight).view(*x.shape[:-1], -1)
    return y if bias is None else y + bias


def masked_only(x: Tensor, weight: Tensor) -> bool:
    """Whether a call must be made of plain operations: traced, transformed or autocast."""
    return (
        torch.compiler.is_compiling()
        or torch.compiler.is_exporting()
        or torch._C._are_functorch_transforms_active()
        or x.is_meta
        or torch.is_autocast_enabled(x.device.type)
        or torch._C._get_tracing_state() is not None
        or type(x) not in _PLAIN
        or type(weight) not in _PLAIN
        or x.dtype != weight.dtype
        or x.numel() == 0
    )


_PLAIN = (Tensor, torch.nn.Parameter)


def resolve(plan: Choice, wiring: Wiring, x: Tensor) -> Plan:
    """The plan itself, the one that is fixed for all, or the fastest."""
    fixed = fixed_choice(plan)
    if fixed is not None:
        return fixed
    rows = x.numel() // x.shape[-1]
    if x.is_cuda or rows * wiring.width_in * wiring.width_out < _SMALL:
        return MASKED
    bucket = 1 << (rows - 1).bit_length()
    key = (wiring.key, bucket, x.dtype, x.device, torch.get_num_threads())
    found = _chosen.get(key)
    if found is None:
        found = _chosen[key] = fastest(wiring, rows, dtype=x.dtype, device=x.device)
    return found


def fixed_choice(plan: Choice) -> Plan | None:
    """The plan of a layer or of the surrounding block of code, if either says one."""
    return plan if isinstance(plan, Plan) else _fixed.get()


_chosen: dict[Any, Plan] = {}


def forget_choices() -> None:
    """Measure again from now on."""
    _chosen.clear()


def candidates(wiring: Wiring, rows: int) -> list[Plan]:
    """Ways that may be faster than masked, the most hopeful first.

    Args:
        wiring: of the layer.
        rows: how many inputs it gets at once.
    """
    whole = wiring.width_in * wiring.width_out
    scored: list[tuple[float, int, Plan]] = []
    for group in (1, 2, 4, 8):
        for ordered, in_place in ((False, False), (False, True), (True, False)):
            plan = Plan(group, ordered, in_place)
            side = grouped_plan(wiring, plan).outputs
            if side.products < _HOPELESS * whole:
                scored.append((_nanoseconds(side, rows), len(scored), plan))
    return [plan for _, _, plan in sorted(scored)]


def _nanoseconds(side: Side, rows: int) -> float:
    """A guess at the time of one product: what to measure, not what to choose."""
    own = side.read_width / len(side.sizes)
    # Narrow products run below the processor's speed; each has its overhead; gathering and
    # bringing into order copy memory.
    multiplied = rows * side.products * (1 + 8 / own) / 50
    copied = 0.35 * rows * (side.gathered + (0 if side.order is None else 2 * side.read_width))
    return multiplied + copied + 8000 * len(side.parts)


def fastest(wiring: Wiring, rows: int, *, dtype: torch.dtype, device: torch.device) -> Plan:
    """Measure the ways to compute a layer, forward and backward, in turns.

    Args:
        wiring: of the layer.
        rows: how many inputs it gets at once.
        dtype: of its weights.
        device: where it is.
    """
    plans = [MASKED, *candidates(wiring, rows)[:_MEASURED]]
    if rows > _FEW_ROWS:
        plans += [replace(plan, rows=_FEW_ROWS) for plan in plans[1:3]]
    if len(plans) == 1:
        return MASKED
    with torch.inference_mode(mode=False), torch.enable_grad():
        x = torch.ones(rows, wiring.width_in, dtype=dtype, device=device, requires_grad=True)
        weight = torch.ones(wiring.width_out, wiring.width_in, dtype=dtype, device=device)
        weight.requires_grad_()
        mask = wiring.mask().to(weight)
        calls = [_step(x, weight, mask, wiring, plan) for plan in plans]
        times: list[list[float]] = [[] for _ in plans]
        for _ in range(_REPEATS):
            for call, own in zip(calls, times, strict=True):
                own.append(_seconds(call))
    # The least of several: other work on the machine only ever adds time.
    least = [min(own) for own in times]
    best = min(range(len(plans)), key=lambda i: least[i])
    chosen = plans[best] if least[best] <= _WORTH * least[0] else MASKED
    figures = {str(plan): f"{1e3 * t:.2f} ms" for plan, t in zip(plans, least, strict=True)}
    _log.debug("%d rows of %s: %s of %s", rows, wiring.graph.name, chosen, figures)
    return chosen


@lru_cache(maxsize=256)
def _grouped(key: Any, held: _Held, plan: Plan) -> GroupedLinear:
    graph = held.wiring.graph
    order = clustered_order(graph, plan.group) if plan.ordered else None
    shortest = _LONG_RUN if plan.in_place else None
    return GroupedLinear(
        held.wiring, plan.group, order=order, shortest=shortest, rows=plan.rows or None
    )


def grouped_plan(wiring: Wiring, plan: Plan) -> GroupedLinear:
    """The indices of a plan for a layer, shared by all layers of the same wiring."""
    return _grouped(wiring.key, _Held(wiring), plan)


class _Held:
    """A wiring that a cache does not tell apart: its key does that."""

    def __init__(self, wiring: Wiring) -> None:
        self.wiring = wiring

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held)


def _step(
    x: Tensor, weight: Tensor, mask: Tensor, wiring: Wiring, plan: Plan
) -> Callable[[], None]:
    upstream = x.new_ones(len(x), len(weight))

    def step() -> None:
        y = wired_linear(x, weight, None, mask, wiring=wiring, plan=plan)
        torch.autograd.grad(y, (x, weight), upstream)

    step()
    return step


def _seconds(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
