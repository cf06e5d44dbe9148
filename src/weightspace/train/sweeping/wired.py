"""What the networks of a sweep are wired by: its graphs, and what they are compared with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from weightspace.errors import GraphError
from weightspace.relational import RelationalGraph, complete, degree_preserving, places
from weightspace.relational.analysis.reading import COMPLETE, SWEEP

Match = Literal["flops", "parameters", "width"]

NULL, GROUPED = "null", "grouped"
EQUAL_WIDTH, EQUAL_PARAMETERS = "equal-width", "equal-parameters"


@dataclass(frozen=True)
class Wired:
    """What wires a network, and what about it equals the dense network.

    Args:
        name: of the graph or control, different for each.
        graph: on the nodes; of separate groups, the complete graph of as many nodes as groups.
        kind: ``sweep``, ``complete`` or the name of a control.
        control_of: the graph of the sweep that a control is compared with; may be empty.
        match: what equals the dense network's: multiply-adds, parameters or widths.
        groups: if positive, layers are in so many separate groups of channels.
    """

    name: str
    graph: RelationalGraph
    kind: str = SWEEP
    control_of: str = ""
    match: Match = "flops"
    groups: int = 0

    @cached_property
    def place(self) -> tuple[float, float]:
        """Clustering and path length; of separate groups, those within a group."""
        if self.groups:
            return 1.0, 1.0
        clustering, length = places([self.graph])[0].tolist()
        return clustering, length

    @property
    def degree(self) -> float:
        """The mean degree of the graph; groups are nodes that hear themselves alone."""
        return 0.0 if self.groups else float(self.graph.degrees.mean())

    @property
    def density(self) -> float:
        """The share of a wired layer's weights that are there."""
        return 1 / self.groups if self.groups else self.graph.density

    @property
    def dense(self) -> bool:
        """Whether this is the ordinary network."""
        return not self.groups and self.graph.density == 1


def wirings(graphs: Sequence[RelationalGraph], *, kind: str = SWEEP) -> list[Wired]:
    """The graphs of a sweep; those without a name get one.

    Args:
        graphs: all different.
        kind: ``sweep``, or a name under which they are compared with the sweep's graphs.

    Raises:
        GraphError: there are none, or two of one name.
    """
    found = [Wired(graph.name or f"graph-{graph.fingerprint[:8]}", graph, kind) for graph in graphs]
    names = [wired.name for wired in found]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if not found or twice:
        raise GraphError(
            "graphs of a sweep",
            expected="at least one, of different names",
            found=f"{names.count(twice[0])} named {twice[0]}" if twice else "none",
        )
    return found


def controls(graphs: Sequence[Wired], kinds: Sequence[str], *, count: int = 8) -> list[Wired]:
    """What the graphs of a sweep are compared with.

    ``complete`` is the ordinary network. The others are controls of some graphs, spread evenly
    over the degrees: ``null`` has the same degrees and is random else; ``equal-width`` and
    ``equal-parameters`` is the same graph in a network with the dense network's widths or
    number of parameters instead of its multiply-adds; ``grouped`` is in separate groups of
    channels, as grouped convolutions are, of about the same density.

    Args:
        graphs: of the sweep.
        kinds: of :data:`CONTROLS`.
        count: how many graphs get controls of their own.

    Raises:
        GraphError: there is no such kind.
    """
    unknown = [kind for kind in kinds if kind not in CONTROLS]
    if unknown:
        raise GraphError("controls", expected=f"some of {', '.join(CONTROLS)}", found=unknown[0])
    ordered = sorted(graphs, key=lambda wired: (wired.degree, wired.name))
    at = np.unique(np.linspace(0, len(ordered) - 1, min(count, len(ordered))).round().astype(int))
    chosen = [ordered[i] for i in at]
    found = []
    for kind, make in CONTROLS.items():
        if kind in kinds:
            found += make(ordered if kind == COMPLETE else chosen)
    return found


def _complete(graphs: Sequence[Wired]) -> list[Wired]:
    sizes = sorted({wired.graph.n for wired in graphs})
    # The dense network is the same for all numbers of nodes.
    return [Wired("complete", complete(sizes[-1]), COMPLETE)]


def _null(graphs: Sequence[Wired]) -> list[Wired]:
    nulls = [(degree_preserving(wired.graph, seed=0), wired) for wired in graphs]
    return [
        Wired(f"degrees of {wired.name}", null, NULL, wired.name)
        for null, wired in nulls
        if null != wired.graph
    ]


def _equal_width(graphs: Sequence[Wired]) -> list[Wired]:
    return [_again(wired, EQUAL_WIDTH, "width") for wired in graphs]


def _equal_parameters(graphs: Sequence[Wired]) -> list[Wired]:
    return [_again(wired, EQUAL_PARAMETERS, "parameters") for wired in graphs]


def _again(wired: Wired, kind: str, match: Match) -> Wired:
    return Wired(f"{wired.name}, {kind}", wired.graph, kind, wired.name, match)


def _grouped(graphs: Sequence[Wired]) -> list[Wired]:
    """For each power of two the graph whose density is nearest, where there is one."""
    found: dict[int, tuple[float, Wired]] = {}
    for wired in graphs:
        groups = 1 << max(1, round(math.log2(1 / wired.density)))
        distance = abs(wired.density - 1 / groups)
        if groups < wired.graph.n and (groups not in found or distance < found[groups][0]):
            found[groups] = (distance, wired)
    return [
        Wired(f"grouped({groups})", complete(groups), GROUPED, wired.name, groups=groups)
        for groups, (_, wired) in sorted(found.items())
    ]


CONTROLS: dict[str, Callable[[Sequence[Wired]], list[Wired]]] = {
    COMPLETE: _complete,
    NULL: _null,
    EQUAL_WIDTH: _equal_width,
    EQUAL_PARAMETERS: _equal_parameters,
    GROUPED: _grouped,
}
"""What a sweep can be compared with."""
