"""How the neurons and connections of a batch of networks lie in flat buffers.

One buffer holds the states of all neurons of a batch, another those of all connections, however
many architectures are mixed: what maps every node or every edge by itself is one matrix product.
Connections are sorted into runs of blocks of equal shape, and a run is a dense tensor
``[lead, targets, sources, d]``: what joins edges with their ends is broadcasting, and what
gathers them at their ends is reduction. Only the far smaller node states are ever indexed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from weightspace.graph import GraphSpec, NodeSet, activation_identities, position_identities
from weightspace.graph.caches import lasting
from weightspace.nn.plan import plan_of
from weightspace.nn.rearranging import Rearranging

ROLES = ("input", "hidden", "output")

Rows = slice | Tensor
"""Rows of a buffer: a range, or indices."""


@dataclass(frozen=True)
class Section:
    """The neurons of one node set in all networks of one part.

    Args:
        part: the part's place in the batch.
        place: the node set's place in its spec.
        count: networks.
        neurons: of each network.
        start: the first row in the node buffer; rows are ordered by network, then neuron.
    """

    part: int
    place: int
    count: int
    neurons: int
    start: int

    @property
    def rows(self) -> slice:
        """The rows in the node buffer."""
        return slice(self.start, self.start + self.count * self.neurons)


@dataclass(frozen=True)
class Member:
    """One block of one part, within a run."""

    part: int
    block: int
    count: int


@dataclass(frozen=True, eq=False)
class Run:
    """Blocks of equal shape, stacked.

    Args:
        lead: networks times groups, of all members.
        targets: target neurons of each.
        sources: source neurons of each.
        edges: the rows in the edge buffer, ordered by lead, target, source.
        target: the rows of the node buffer that are the targets, ordered by lead.
        source: the same of the sources.
        at_target: the rows of what the targets receive, in the buffer of received values.
        at_source: the same of the sources.
        members: the blocks.
        layout: what features an edge has, see :func:`weightspace.nn.arranging.feature_layout`.
    """

    lead: int
    targets: int
    sources: int
    edges: slice
    target: Rows
    source: Rows
    at_target: Rows
    at_source: Rows
    members: tuple[Member, ...]
    layout: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Lead, targets, sources."""
        return self.lead, self.targets, self.sources

    def with_next(self, run: Run) -> Run:
        """This run and the next, of equal targets and sources, as one of any layout."""
        return Run(
            lead=self.lead + run.lead,
            targets=self.targets,
            sources=self.sources,
            edges=slice(self.edges.start, run.edges.stop),
            target=_joined(self.target, run.target),
            source=_joined(self.source, run.source),
            at_target=_joined(self.at_target, run.at_target),
            at_source=_joined(self.at_source, run.at_source),
            members=self.members + run.members,
            layout=(),
        )


@dataclass(frozen=True, eq=False)
class Inflow:
    """Neurons that receive from the same number of runs.

    Args:
        nodes: their rows in the node buffer.
        parts: the rows of the buffer of received values, one for each run and direction.
    """

    nodes: slice
    parts: tuple[Rows, ...]

    @property
    def size(self) -> int:
        """How many neurons they are."""
        return int(self.nodes.stop - self.nodes.start)


@dataclass(frozen=True, eq=False)
class Arrangement:
    """The flat order of a batch of networks.

    Args:
        specs: the spec of each part.
        counts: the number of networks of each part.
        sections: every node set of every part, in the order of the node buffer.
        runs: the connections.
        inflows: how received values fall on nodes.
    """

    specs: tuple[GraphSpec, ...]
    counts: tuple[int, ...]
    sections: tuple[Section, ...]
    runs: tuple[Run, ...]
    inflows: tuple[Inflow, ...]

    @property
    def node_count(self) -> int:
        """Rows of the node buffer."""
        last = self.sections[-1]
        return last.start + last.count * last.neurons

    @property
    def edge_count(self) -> int:
        """Rows of the edge buffer; each connection once."""
        return int(self.runs[-1].edges.stop) if self.runs else 0

    @property
    def received_count(self) -> int:
        """Rows of the buffer of received values."""
        return sum(self._received_starts.values())

    @property
    def network_count(self) -> int:
        """Networks of all parts."""
        return sum(self.counts)

    # -- nodes ---------------------------------------------------------------------------

    def split(self, nodes: Float[Tensor, "nodes d"]) -> dict[tuple[int, int], Tensor]:
        """Cut node states into ``{(part, node set): [networks, neurons, d]}``."""
        sizes = [section.count * section.neurons for section in self.sections]
        return {
            (s.part, s.place): rows.view(s.count, s.neurons, rows.shape[-1])
            for s, rows in zip(self.sections, torch.split(nodes, sizes), strict=True)
        }

    def join(self, states: dict[tuple[int, int], Tensor]) -> Float[Tensor, "nodes d"]:
        """Undo :meth:`split`."""
        return torch.cat([states[s.part, s.place].flatten(0, 1) for s in self.sections])

    def by_role(self, nodes: Float[Tensor, "nodes d"], role: str) -> list[Tensor]:
        """The states of the nodes of one role, ``[networks, neurons, d]`` for each part.

        Networks may have none: the output axis of a mean over neurons is gone.
        """
        states = self.split(nodes)
        found = []
        for p, (spec, count) in enumerate(zip(self.specs, self.counts, strict=True)):
            none = nodes.new_zeros(count, 0, nodes.shape[-1])
            own = [states[p, i] for i, n in enumerate(spec.node_sets) if n.role == role]
            found.append(torch.cat(own or [none], dim=1))
        return found

    def of_section(self, values: Callable[[GraphSpec, NodeSet], int]) -> Int[Tensor, " nodes"]:
        """A number for every node of the buffer, the same within a node set."""
        found = [values(self.specs[s.part], self.node_set(s)) for s in self.sections]
        sizes = torch.tensor([s.count * s.neurons for s in self.sections])
        return torch.tensor(found).repeat_interleave(sizes)

    def node_set(self, section: Section) -> NodeSet:
        """The node set of a section."""
        return self.specs[section.part].node_sets[section.place]

    @cached_property
    @lasting
    def positions(self) -> Int[Tensor, " nodes"]:
        """The identity of every node within its role, see ``position_identities``."""
        identities = [position_identities(spec) for spec in self.specs]
        return torch.cat(
            [identities[s.part][self.node_set(s).name].repeat(s.count) for s in self.sections]
        )

    @cached_property
    @lasting
    def roles(self) -> Int[Tensor, " nodes"]:
        """The role of every node: 0 for input, 1 for hidden, 2 for output."""
        return self.of_section(lambda _, node_set: ROLES.index(node_set.role))

    @cached_property
    @lasting
    def activations(self) -> Int[Tensor, " nodes"]:
        """The activation function's identity of every node."""
        return self.of_section(lambda spec, node_set: activation_identities(spec)[node_set.name])

    @cached_property
    @lasting
    def degrees(self) -> Float[Tensor, "nodes 1"]:
        """How many connections each neuron has, both directions counted."""
        plans = [plan_of(spec) for spec in self.specs]
        values = torch.tensor([float(plans[s.part].degrees[s.place]) for s in self.sections])
        sizes = torch.tensor([s.count * s.neurons for s in self.sections])
        return values.repeat_interleave(sizes).unsqueeze(1)

    @cached_property
    @lasting
    def networks(self) -> Int[Tensor, " nodes"]:
        """The network that every node belongs to, numbered over the parts."""
        starts = [sum(self.counts[:part]) for part in range(len(self.counts))]
        return torch.cat(
            [
                (starts[s.part] + torch.arange(s.count)).repeat_interleave(s.neurons)
                for s in self.sections
            ]
        )

    # -- edges and their ends --------------------------------------------------------------

    def views(self, edges: Float[Tensor, "edges d"]) -> list[Tensor]:
        """Cut edge states into the dense tensors ``[lead, targets, sources, d]`` of the runs."""
        parts = torch.split(edges, [run.edges.stop - run.edges.start for run in self.runs])
        return [
            part.view(*run.shape, part.shape[-1])
            for run, part in zip(self.runs, parts, strict=True)
        ]

    def flat(self, views: Sequence[Tensor]) -> Float[Tensor, "edges d"]:
        """Undo :meth:`views`."""
        return torch.cat([view.flatten(0, 2) for view in views])

    def at_targets(self, nodes: Float[Tensor, "nodes d"]) -> list[Tensor]:
        """The states of each run's targets: ``[lead, targets, 1, d]``."""
        return [
            rows.view(run.lead, run.targets, 1, rows.shape[-1])
            for run, rows in zip(
                self.runs, self._take(nodes, [r.target for r in self.runs]), strict=True
            )
        ]

    def at_sources(self, nodes: Float[Tensor, "nodes d"]) -> list[Tensor]:
        """The states of each run's sources: ``[lead, 1, sources, d]``."""
        return [
            rows.view(run.lead, 1, run.sources, rows.shape[-1])
            for run, rows in zip(
                self.runs, self._take(nodes, [r.source for r in self.runs]), strict=True
            )
        ]

    def _take(self, nodes: Tensor, wanted: list[Rows]) -> list[Tensor]:
        # Ranges of the node buffer are whole sections. One split serves them all: the gradient
        # of a split is one concatenation, that of a slice a whole buffer of zeros.
        starts = {section.start: i for i, section in enumerate(self.sections)}
        sections = torch.split(
            nodes, [section.count * section.neurons for section in self.sections]
        )
        return [
            sections[starts[rows.start]]
            if isinstance(rows, slice)
            else nodes.index_select(0, rows.to(nodes.device))
            for rows in wanted
        ]

    def merge(
        self,
        received: Float[Tensor, "received d"],
        join: Callable[[Tensor, Tensor], Tensor] = torch.add,
    ) -> Float[Tensor, "nodes d"]:
        """Join what each neuron receives from all runs, both directions; zero if nothing.

        Args:
            received: one row for each end of each run, as :attr:`Run.at_target` and
                :attr:`Run.at_source` say.
            join: of two values, such as ``torch.add`` or ``torch.minimum``.
        """
        rows = received if self._arrival is None else self._arrival(received)
        sizes = [inflow.size for inflow in self.inflows for _ in inflow.parts]
        pieces = iter(torch.split(rows, sizes)) if sizes else iter(())
        merged = []
        for inflow in self.inflows:
            parts = [next(pieces) for _ in inflow.parts]
            if parts:
                merged.append(functools.reduce(join, parts))
            else:
                merged.append(received.new_zeros(inflow.size, received.shape[-1]))
        return torch.cat(merged)

    @cached_property
    @lasting
    def _arrival(self) -> Rearranging | None:
        """The order that puts received values beside each other as they are joined."""
        parts = [index_of(rows) for inflow in self.inflows for rows in inflow.parts]
        order = torch.cat(parts) if parts else torch.arange(0)
        return None if torch.equal(order, torch.arange(len(order))) else Rearranging(order)

    @cached_property
    @lasting
    def bundles(self) -> tuple[Run, ...]:
        """The runs with those of equal targets and sources joined, whatever their layouts.

        For what works on edge states, which have no layout: fewer and larger steps.
        """
        bundles: list[Run] = []
        for run in self.runs:
            if len(self.specs) > 1 and bundles and bundles[-1].shape[1:] == run.shape[1:]:
                bundles[-1] = bundles[-1].with_next(run)
            else:
                bundles.append(run)
        return tuple(bundles)

    @cached_property
    def _received_starts(self) -> dict[int, int]:
        """The first row and the length of each run's received values, in order."""
        ranges = [rows for run in self.runs for rows in (run.at_target, run.at_source)]
        return {r.start: r.stop - r.start for r in ranges if isinstance(r, slice)}


def index_of(rows: Rows) -> Int[Tensor, " rows"]:
    """Rows as indices."""
    return torch.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows


def _joined(first: Rows, second: Rows) -> Rows:
    return torch.cat([index_of(first), index_of(second)])
