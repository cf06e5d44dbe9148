"""Every connection and bias that touches the neurons of one node set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.nn.arrangement import Arrangement
from weightspace.nn.lead import at_lead
from weightspace.nn.plan import End, plan_of


@dataclass(frozen=True)
class Touch:
    """A block of one part at one of its ends.

    Args:
        run: the run it is in.
        lead: its range there.
        is_target: which end.
        end: the end.
        diagonal: whether it is one value for each neuron.
    """

    run: int
    lead: slice
    is_target: bool
    end: End
    diagonal: bool


Touching = dict[tuple[int, int], list[Touch]]


def touching(arrangement: Arrangement) -> Touching:
    """The blocks that touch each node set of each part, in the order of the spec."""
    found: Touching = {(s.part, s.place): [] for s in arrangement.sections}
    for place, run in enumerate(arrangement.runs):
        start = 0
        for member in run.members:
            block = plan_of(arrangement.specs[member.part]).blocks[member.block]
            lead = slice(start, start + member.count * block.shape.groups)
            start = lead.stop
            diagonal = block.shape.targets == block.shape.sources == 1
            for end, is_target in ((block.target, True), (block.source, False)):
                touch = Touch(place, lead, is_target, end, diagonal)
                found[member.part, end.place].append(touch)
    return found


def tokens(
    view: Float[Tensor, "lead targets sources d"], touch: Touch, count: int
) -> Float[Tensor, "networks tokens neurons d"]:
    """A block as tokens: a field over the neurons for each partner at the other end.

    Args:
        view: the states of the run.
        touch: the block and which of its ends the neurons are.
        count: networks of the part.
    """
    block = at_lead(view, touch.lead)
    if not touch.diagonal:
        return block.transpose(1, 2) if touch.is_target else block
    return _in_order(block.reshape(count, -1, block.shape[-1]), touch.end, inverse=True)[:, None]


def untokened(
    values: Float[Tensor, "networks tokens neurons heads d"], touch: Touch
) -> Float[Tensor, "edges heads_d"]:
    """Undo :func:`tokens`: one row for each edge, heads side by side."""
    if touch.diagonal:
        rows = _in_order(values[:, 0].flatten(2), touch.end, inverse=False)
    else:
        rows = values.transpose(1, 2) if touch.is_target else values
    return rows.reshape(-1, values.shape[-2] * values.shape[-1])


def _in_order(values: Tensor, end: End, *, inverse: bool) -> Tensor:
    """Bring neurons from a block's order to their node set's (inverse), or back."""
    if end.plain:
        return values
    order = end.order
    sizes = [end.sizes[place] for place in order] if inverse else list(end.sizes)
    if inverse:
        order = tuple(sorted(range(len(order)), key=order.__getitem__))
    grid = values.reshape(len(values), *sizes, values.shape[-1])
    return grid.permute(0, *(place + 1 for place in order), grid.ndim - 1).reshape(values.shape)


def exchange(
    arrangement: Arrangement,
    touches: Touching,
    nodes: Float[Tensor, "nodes d"],
    edges: Float[Tensor, "edges d"],
    function: Callable[[list[Tensor]], Sequence[Tensor]],
) -> tuple[Float[Tensor, "nodes out"], Float[Tensor, "edges out"], Float[Tensor, "edges out"]]:
    """Apply a function to the tokens of every node set: one for each partner, one for the biases.

    Args:
        arrangement: of the batch.
        touches: see :func:`touching`.
        nodes: what biases put in.
        edges: what weights put in.
        function: of the node set's tokens, ``[networks, tokens, neurons, d]`` each, to results
            ``[networks, tokens, neurons, heads, d]``.

    Returns:
        What biases get, what weights get from their targets' node set, and from their sources'.
    """
    states, views = arrangement.split(nodes), arrangement.views(edges)
    given: dict[tuple[int, int], Tensor] = {}
    at_ends: list[dict[int, list[Tensor]]] = [
        {place: [] for place in range(len(arrangement.runs))} for _ in range(2)
    ]
    at: dict[tuple[int, int, bool], Tensor] = {}
    for (part, place), touched in touches.items():
        count = arrangement.counts[part]
        parts = [states[part, place][:, None]]
        parts += [tokens(views[touch.run], touch, count) for touch in touched]
        first, *rest = function(parts)
        given[part, place] = first[:, 0].flatten(2)
        for touch, values in zip(touched, rest, strict=True):
            at[touch.run, touch.lead.start, touch.is_target] = untokened(values, touch)
    for (run, _, is_target), rows in sorted(at.items(), key=lambda item: item[0]):
        at_ends[0 if is_target else 1][run].append(rows)
    ends = [torch.cat([v for values in side.values() for v in values]) for side in at_ends]
    return arrangement.join(given), ends[0], ends[1]
