"""All values of each neuron: the connections that enter it, and its own features."""

from __future__ import annotations

import torch
from torch import Tensor

from weightspace.graph import GraphSpec, NeuralGraph
from weightspace.nn.plan import End, plan_of


def neuron_values(graph: NeuralGraph) -> dict[int, Tensor]:
    """The values of the neurons of each node set that has any, ``[networks, neurons, values]``.

    Entering blocks come in the order of the spec, a connection's features side by side; the
    neuron's own features are last.

    >>> from weightspace.graph import chain_spec
    >>> spec = chain_spec([2, 4, 1])
    >>> state = {p.name: torch.ones(p.shape) for p in spec.parameters}
    >>> {i: v.shape for i, v in neuron_values(NeuralGraph.from_states(spec, [state])).items()}
    {1: torch.Size([1, 4, 3]), 2: torch.Size([1, 1, 5])}
    """
    held: dict[int, list[Tensor]] = {}
    for block, plan in zip(graph.spec.blocks, plan_of(graph.spec).blocks, strict=True):
        if block.pieces:
            entering = graph.edges[block.name].flatten(3).flatten(1, 2)
            held.setdefault(plan.target.place, []).append(_to_nodes(plan.target, entering))
    for place, node_set in enumerate(graph.spec.node_sets):
        if node_set.pieces:
            held.setdefault(place, []).append(graph.nodes[node_set.name])
    return {place: torch.cat(held[place], dim=-1) for place in sorted(held)}


def cut_values(spec: GraphSpec, values: Tensor) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
    """Undo :func:`neuron_values`.

    Args:
        spec: the networks' structure.
        values: ``[networks, neurons of all node sets with values, at least their values]``.

    Returns:
        The neurons' own features ``[networks, neurons, features]`` of each node set, and
        ``[networks, groups, targets, sources, features]`` of each block.
    """
    plan = plan_of(spec)
    used = {p.target.place for b, p in zip(spec.blocks, plan.blocks, strict=True) if b.pieces}
    used |= {place for place, node_set in enumerate(spec.node_sets) if node_set.pieces}
    places = sorted(used)
    rows = torch.split(values, [plan.sizes[place] for place in places], dim=1)
    left = dict(zip(places, rows, strict=True))
    edges: dict[int, Tensor] = {}
    for i, (block, ends) in enumerate(zip(spec.blocks, plan.blocks, strict=True)):
        if block.pieces:
            count = ends.shape.sources * ends.shape.features
            own, left[ends.target.place] = _cut(left[ends.target.place], count)
            grouped = _to_groups(ends.target, own)
            edges[i] = grouped.reshape(len(values), *ends.shape)
    nodes = {
        place: left[place][..., : node_set.features]
        for place, node_set in enumerate(spec.node_sets)
        if node_set.pieces
    }
    return nodes, edges


def _cut(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    return values[..., :count], values[..., count:]


def _to_nodes(end: End, rows: Tensor) -> Tensor:
    """Bring neurons from a block's order, groups first, to the node set's."""
    if end.plain:
        return rows
    grid = rows.reshape(len(rows), *(end.sizes[i] for i in end.order), rows.shape[-1])
    inverse = sorted(range(len(end.order)), key=end.order.__getitem__)
    return grid.permute(0, *(i + 1 for i in inverse), -1).reshape(rows.shape)


def _to_groups(end: End, rows: Tensor) -> Tensor:
    """Undo :func:`_to_nodes`."""
    if end.plain:
        return rows
    grid = rows.reshape(len(rows), *end.sizes, rows.shape[-1])
    return grid.permute(0, *(i + 1 for i in end.order), -1).reshape(rows.shape)
