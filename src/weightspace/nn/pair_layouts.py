"""The two sets of pairs that relational models look at: all, and the connected ones."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from weightspace.graph.caches import lasting
from weightspace.nn.arrangement import Arrangement, Rows
from weightspace.nn.pair_layout import Grid, PairLayout


@lru_cache(maxsize=64)
@lasting
def all_pairs(arrangement: Arrangement) -> PairLayout:
    """Every neuron with every neuron of its own network, itself included.

    Connections between the same two neurons share a pair.

    >>> from weightspace.graph import MixedGraph, NeuralGraph, chain_spec
    >>> from weightspace.nn import arrange
    >>> spec = chain_spec([2, 4, 1])
    >>> states = [{p.name: torch.zeros(p.shape) for p in spec.parameters}] * 3
    >>> arrangement = arrange(MixedGraph.of(NeuralGraph.from_states(spec, states)))
    >>> all_pairs(arrangement).pair_count == 3 * 7 * 7
    True
    """
    grids, pair, row = [], 0, 0
    # of every node: the first of the pairs in which it looks at others, its place among them
    first = torch.empty(arrangement.node_count, dtype=torch.long)
    place = torch.empty_like(first)
    for part, count in enumerate(arrangement.counts):
        rows = [
            torch.arange(s.rows.start, s.rows.stop).view(count, s.neurons)
            for s in sorted(arrangement.sections, key=lambda s: s.place)
            if s.part == part
        ]
        nodes = torch.cat(rows, dim=1)
        size = nodes.shape[1]
        first[nodes] = pair + torch.arange(count * size).view(count, size) * size
        place[nodes] = torch.arange(size).expand(count, size)
        index = nodes.flatten()
        pairs = slice(pair, pair + count * size * size)
        received = slice(row, row + count * size)
        grids.append(Grid(count, size, size, pairs, index, index, received, part))
        pair, row = pairs.stop, received.stop
    ends = [_ends(arrangement, run) for run in range(len(arrangement.runs))]
    along = [(first[target] + place[source]).flatten() for target, source in ends]
    against = [(first[source] + place[target]).flatten() for target, source in ends]
    return PairLayout(arrangement, tuple(grids), _joined(along), _joined(against))


@lru_cache(maxsize=64)
@lasting
def connected_pairs(arrangement: Arrangement) -> PairLayout:
    """Both ends of every connection, every neuron with itself and with its node set's mean.

    >>> from weightspace.graph import MixedGraph, NeuralGraph, chain_spec
    >>> from weightspace.nn import arrange
    >>> spec = chain_spec([2, 4, 1])
    >>> states = [{p.name: torch.zeros(p.shape) for p in spec.parameters}] * 3
    >>> arrangement = arrange(MixedGraph.of(NeuralGraph.from_states(spec, states)))
    >>> connected_pairs(arrangement).pair_count == 3 * (2 * 12 + 2 * 7)
    True
    """
    runs, nodes, edges = arrangement.runs, arrangement.node_count, arrangement.edge_count
    grids, row = [], 0
    against: list[Tensor] = []
    for number, run in enumerate(runs):
        received = slice(row, row + run.lead * run.targets)
        grids.append(
            Grid(
                *(run.lead, run.targets, run.sources, run.edges, run.target, run.source),
                received=received,
                reverse=len(runs) + number,
            )
        )
        row = received.stop
    for number, run in enumerate(runs):
        pairs = slice(edges + run.edges.start, edges + run.edges.stop)
        received = slice(row, row + run.lead * run.sources)
        grids.append(
            Grid(
                *(run.lead, run.sources, run.targets, pairs, run.source, run.target),
                received=received,
                reverse=number,
            )
        )
        row = received.stop
        order = torch.arange(pairs.start, pairs.stop).view(run.lead, run.sources, run.targets)
        against.append(order.transpose(1, 2).flatten())
    # A pair with oneself or with a mean is a block of its own, and its own reverse.
    itself: Rows = slice(0, nodes)
    for number, sender in enumerate((itself, _pools(arrangement))):
        start = 2 * edges + number * nodes
        pairs, received = slice(start, start + nodes), slice(row, row + nodes)
        grids.append(Grid(nodes, 1, 1, pairs, itself, sender, received, len(grids)))
        row = received.stop
    return PairLayout(arrangement, tuple(grids), slice(0, edges), _joined(against), pools=True)


def _pools(arrangement: Arrangement) -> Tensor:
    """The row of every neuron's node set's mean, after all nodes."""
    start, rows = arrangement.node_count, []
    for section in arrangement.sections:
        pools = torch.arange(start, start + section.count)
        rows.append(pools.repeat_interleave(section.neurons))
        start += section.count
    return torch.cat(rows)


def _ends(arrangement: Arrangement, number: int) -> tuple[Tensor, Tensor]:
    """The nodes at both ends of a run: ``[lead, targets, 1]`` and ``[lead, 1, sources]``."""
    run = arrangement.runs[number]
    target, source = (
        torch.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        for rows in (run.target, run.source)
    )
    return target.view(run.lead, run.targets, 1), source.view(run.lead, 1, run.sources)


def _joined(parts: list[Tensor]) -> Tensor:
    return torch.cat(parts) if parts else torch.empty(0, dtype=torch.long)
