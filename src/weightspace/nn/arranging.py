"""Making the arrangement of a batch from its specs."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

from weightspace.graph import EdgeBlock, GraphSpec, MixedGraph
from weightspace.graph.caches import lasting
from weightspace.nn.arrangement import Arrangement, Inflow, Member, Rows, Run, Section, index_of
from weightspace.nn.plan import End, plan_of


def feature_layout(spec: GraphSpec, block: EdgeBlock) -> tuple[int, ...]:
    """The sizes of a block's feature dimensions.

    A block of one piece has the piece's own (a kernel's height and width); one of several
    pieces, such as attention's three, has their number with a leading -1.
    """
    if len(block.pieces) > 1:
        return (-1, block.features)
    return tuple(f.size for piece in block.pieces for f in piece.factors if f.side == "feature")


def arrange(batch: MixedGraph) -> Arrangement:
    """The arrangement of a batch; kept, since batches of the same make come again and again.

    >>> from weightspace.graph import NeuralGraph, chain_spec
    >>> spec = chain_spec([2, 4, 1])
    >>> states = [{p.name: torch.zeros(p.shape) for p in spec.parameters}] * 3
    >>> arrangement = arrange(MixedGraph.of(NeuralGraph.from_states(spec, states)))
    >>> arrangement.node_count, arrangement.edge_count
    (21, 36)
    """
    return _arranged(batch.specs, tuple(part.batch_size for part in batch.parts))


@lru_cache(maxsize=64)
@lasting
def _arranged(specs: tuple[GraphSpec, ...], counts: tuple[int, ...]) -> Arrangement:
    sections = _sections(specs, counts)
    starts = {(s.part, s.place): s.start for s in sections}
    runs, received = _runs(specs, counts, starts)
    return Arrangement(specs, counts, sections, runs, _inflows(sections, received, len(specs) == 1))


def _sections(specs: tuple[GraphSpec, ...], counts: tuple[int, ...]) -> tuple[Section, ...]:
    """Order the node sets: as in their spec, or, of several, by how often they receive."""
    keys = [
        (sum((b.target.place == i) + (b.source.place == i) for b in plan.blocks), part, i)
        for part, plan in enumerate(map(plan_of, specs))
        for i in range(len(plan.sizes))
    ]
    if len(specs) > 1:
        keys.sort()
    sections, start = [], 0
    for _, part, place in keys:
        neurons = plan_of(specs[part]).sizes[place]
        sections.append(Section(part, place, counts[part], neurons, start))
        start += counts[part] * neurons
    return tuple(sections)


Received = dict[tuple[int, int], list[Rows]]


def _runs(
    specs: tuple[GraphSpec, ...], counts: tuple[int, ...], starts: dict[tuple[int, int], int]
) -> tuple[tuple[Run, ...], Received]:
    """Sort blocks into runs, and note where each node set finds what it receives."""
    groups: dict[tuple[Any, ...], list[Member]] = {}
    for part, (spec, count) in enumerate(zip(specs, counts, strict=True)):
        for i, block in enumerate(spec.blocks):
            shape, layout = spec.shape_of(block), feature_layout(spec, block)
            # Blocks of a single spec stay apart: their ends are ranges then, not indices.
            key = (i,) if len(specs) == 1 else (shape.targets, shape.sources, layout)
            groups.setdefault(key, []).append(Member(part, i, count))
    if len(specs) > 1:
        groups = dict(sorted(groups.items(), key=lambda item: item[0][:2]))
    runs: list[Run] = []
    received: Received = {}
    edge, row = 0, 0
    for members in groups.values():
        blocks = [plan_of(specs[m.part]).blocks[m.block] for m in members]
        lead = sum(m.count * b.shape.groups for m, b in zip(members, blocks, strict=True))
        targets, sources = blocks[0].shape.targets, blocks[0].shape.sources
        ends = []
        for side, size in (("target", targets), ("source", sources)):
            ends_of = [getattr(block, side) for block in blocks]
            at = slice(row, row + lead * size)
            for member, end in zip(members, ends_of, strict=True):
                total = member.count * plan_of(specs[member.part]).sizes[end.place]
                rows = _in_node_order(end, member.count, row, total)
                received.setdefault((member.part, end.place), []).append(rows)
                row += total
            ends.append((_end_rows(members, ends_of, specs, starts), at))
        span = slice(edge, edge + lead * targets * sources)
        edge = span.stop
        first = members[0]
        layout = feature_layout(specs[first.part], specs[first.part].blocks[first.block])
        (target, at_target), (source, at_source) = ends
        runs.append(
            Run(
                lead,
                targets,
                sources,
                span,
                target,
                source,
                at_target,
                at_source,
                tuple(members),
                layout,
            )
        )
    return tuple(runs), received


def _end_rows(
    members: list[Member],
    ends: list[End],
    specs: tuple[GraphSpec, ...],
    starts: dict[tuple[int, int], int],
) -> Rows:
    """The rows of the node buffer at one end of a run, in the order of its lead."""
    rows: list[Rows] = []
    for member, end in zip(members, ends, strict=True):
        start = starts[member.part, end.place]
        total = member.count * plan_of(specs[member.part]).sizes[end.place]
        if end.plain:
            rows.append(slice(start, start + total))
        else:
            grid = torch.arange(start, start + total).view(member.count, *end.sizes)
            rows.append(grid.permute(0, *(place + 1 for place in end.order)).flatten())
    return rows[0] if len(rows) == 1 else torch.cat([index_of(r) for r in rows])


def _in_node_order(end: End, count: int, start: int, total: int) -> Rows:
    """The received rows of a node set, in the order of its neurons."""
    if end.plain:
        return slice(start, start + total)
    grid = torch.arange(start, start + total).view(count, *(end.sizes[i] for i in end.order))
    inverse = sorted(range(len(end.order)), key=end.order.__getitem__)
    return grid.permute(0, *(place + 1 for place in inverse)).flatten()


def _inflows(sections: tuple[Section, ...], received: Received, single: bool) -> tuple[Inflow, ...]:
    """Neighbouring sections that receive equally often make one inflow."""
    inflows: list[Inflow] = []
    waiting: list[Section] = []

    def finish() -> None:
        if not waiting:
            return
        lists = [received.get((s.part, s.place), []) for s in waiting]
        parts = tuple(
            rows[0] if single else torch.cat([index_of(r) for r in rows])
            for rows in zip(*lists, strict=True)
        )
        inflows.append(Inflow(slice(waiting[0].start, waiting[-1].rows.stop), parts))
        waiting.clear()

    for section in sections:
        often = len(received.get((section.part, section.place), []))
        if waiting and (
            single or often != len(received.get((waiting[0].part, waiting[0].place), []))
        ):
            finish()
        waiting.append(section)
    finish()
    return tuple(inflows)
