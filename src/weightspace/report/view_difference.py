"""The content of the page that shows what changed between two networks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from weightspace.align import Alignment
from weightspace.graph import GraphSpec, NeuralGraph, State
from weightspace.graph.reordering import nested_sizes
from weightspace.report.view_content import Finding, Mark, View
from weightspace.report.view_encoding import Array
from weightspace.report.view_maps import MapShape, best_side, encode_map, target_rows
from weightspace.report.view_network import (
    block_norms,
    left_out_table,
    network_facts,
    statistics,
)

CHANNELS = (("change", "change, B - A"), ("weight", "A"), ("other", "B, aligned"))
FEATURES = (
    ("change", "norm of the change of incoming weights"),
    ("relative", "the same, relative to A's"),
    ("incoming", "norm of A's incoming weights"),
    ("place", "its place in B"),
)
TENTH = 0.1
MARKS = (
    Mark("moved", "moved", "At another place in B: alignment brought it here.", "model-0"),
    Mark(
        "changed",
        "changed",
        "Incoming weights changed by more than a tenth of their norm.",
        "model-1",
    ),
)


@dataclass(frozen=True)
class Change:
    """How much a tensor changed.

    Args:
        tensor: its name.
        shape: its shape.
        relative: the norm of the change relative to A's norm, after alignment.
        before: the same without alignment.
    """

    tensor: str
    shape: tuple[int, ...]
    relative: float
    before: float


@dataclass(frozen=True, eq=False)
class Difference:
    """What changed between two networks of one architecture.

    Args:
        spec: of both.
        a: the first's tensors.
        b: the second's tensors, brought to the first.
        changes: of each trained tensor.
        moved: for each axis, ``[*parents' sizes, size]``, the place in B of each neuron.
        only: tensors that are not in both, or have another shape: a title and rows.
    """

    spec: GraphSpec
    a: State
    b: State
    changes: Sequence[Change]
    moved: Mapping[str, Tensor]
    only: Sequence[tuple[str, str, str]] = ()

    @classmethod
    def of(
        cls,
        spec: GraphSpec,
        a: State,
        b: State,
        alignment: Alignment | None,
        only: Sequence[tuple[str, str, str]] = (),
    ) -> Difference:
        """Compare two networks.

        Args:
            spec: of both.
            a: the first's tensors.
            b: the second's tensors as they are.
            alignment: of the second, if it was aligned; it counts only if it brings the
                networks closer.
            only: as in the class.
        """
        closer = alignment is not None and alignment.distance < alignment.distance_before
        aligned = alignment.aligned if alignment is not None and closer else b
        moved: dict[str, Tensor] = {}
        if alignment is not None and closer:
            moved = {n: p[0].cpu() for n, p in alignment.reordering.permutations.items()}
        changes = [
            Change(
                p.name,
                tuple(p.shape),
                _relative(a[p.name], aligned[p.name]),
                _relative(a[p.name], b[p.name]),
            )
            for p in spec.parameters
            if not p.buffer
        ]
        return cls(spec, a, aligned, changes, moved, only)

    @property
    def relative(self) -> float:
        """The change of all trained tensors as one vector, relative to A's norm."""
        names = [change.tensor for change in self.changes]
        squares = [
            sum(float(t.double().square().sum()) for t in tensors)
            for tensors in (
                [self.b[n].double() - self.a[n].double() for n in names],
                [self.a[n] for n in names],
            )
        ]
        return math.sqrt(squares[0] / squares[1]) if squares[1] else math.sqrt(squares[0])

    def moved_count(self, axis: str) -> int:
        """How many neurons of an axis are at another place in B."""
        places = self.moved.get(axis)
        return 0 if places is None else int((places != torch.arange(places.shape[-1])).sum())


def view_difference(found: Difference, *, title: str, notes: Sequence[str] = ()) -> View:
    """Collect what the page shows of a difference.

    Args:
        found: the difference.
        title: what the two are called.
        notes: what a reader should know.
    """
    spec = found.spec
    a, b = (NeuralGraph.from_states(spec, [state]) for state in (found.a, found.b))
    numbers = _numbers(found, a, b)
    moved = sum(found.moved_count(axis.name) for axis in spec.axes)
    return View(
        title=title,
        facts=[
            *network_facts(spec),
            ("relative change", f"{found.relative:.4g}"),
            ("moved neurons", f"{moved:,}"),
        ],
        notes=notes,
        spec=spec,
        channels=CHANNELS,
        features=FEATURES,
        maps=_maps(spec, a, b),
        neurons=numbers,
        marks=MARKS,
        findings=[*_moved(found), *_changed(spec, numbers)],
        tables=[*_tables(found), *left_out_table(spec)],
    )


def _relative(a: Tensor, b: Tensor) -> float:
    change = float(torch.linalg.vector_norm(b.double() - a.double()))
    norm = float(torch.linalg.vector_norm(a.double()))
    return change / norm if norm else (math.inf if change else 0.0)


def _maps(spec: GraphSpec, a: NeuralGraph, b: NeuralGraph) -> dict[str, dict[str, Any]]:
    blocks = [block for block in spec.blocks if block.pieces]
    shapes = [MapShape.of(block, spec.shape_of(block)) for block in blocks]
    side = best_side(shapes)
    found: dict[str, dict[str, Any]] = {}
    for block, shape in zip(blocks, shapes, strict=True):
        one, other = a.edges[block.name][0], b.edges[block.name][0]
        change = other.double() - one.double()
        maps = {
            key: encode_map(target_rows(spec, block, values), shape, side)
            for key, values in (("change", change), ("weight", one), ("other", other))
        }
        found[block.name] = {"maps": maps, "statistics": statistics(change)}
    return found


def _numbers(found: Difference, a: NeuralGraph, b: NeuralGraph) -> dict[str, dict[str, Array]]:
    spec = found.spec
    change = a.with_features(edges={n: b.edges[n].double() - a.edges[n].double() for n in a.edges})
    numbers: dict[str, dict[str, Array]] = {n.name: {} for n in spec.node_sets}
    own, moved = block_norms(a, "incoming"), block_norms(change, "incoming")
    for name, norms in own.items():
        ratio = moved[name] / (norms + (norms == 0))
        numbers[name] = {"change": moved[name], "relative": ratio, "incoming": norms}
    for node_set in spec.node_sets:
        if len(node_set.axes) == 1 and node_set.axes[0] in found.moved:
            numbers[node_set.name]["place"] = found.moved[node_set.axes[0]].numpy()
    return numbers


def _moved(found: Difference) -> list[Finding]:
    result = []
    for axis, places in found.moved.items():
        size = places.shape[-1]
        here = torch.arange(size).expand_as(places)
        for flat in torch.nonzero((places != here).flatten()).flatten().tolist():
            result.append(
                Finding("moved", axis, (flat,), f"neuron {int(places.flatten()[flat])} of B")
            )
    return result


def _changed(spec: GraphSpec, numbers: Mapping[str, Mapping[str, Array]]) -> list[Finding]:
    """Neurons of layers on one axis; each layer says how much of it changed."""
    seen: dict[tuple[str, int], str] = {}
    for node_set in spec.node_sets:
        ratio = numbers[node_set.name].get("relative")
        axis = node_set.axes[-1]
        if ratio is None or len(ratio) != math.prod(nested_sizes(spec, axis)):
            continue
        for index in (ratio > TENTH).nonzero()[0].tolist():
            seen.setdefault((axis, index), f"{ratio[index]:.0%} at {node_set.name}")
    return [Finding("changed", axis, (index,), text) for (axis, index), text in seen.items()]


def _tables(found: Difference) -> list[tuple[str, Sequence[str], Sequence[Sequence[str]]]]:
    header = ("tensor", "shape", "relative change", "without alignment")
    rows = [
        [c.tensor, str(list(c.shape)), f"{c.relative:.6g}", f"{c.before:.6g}"]
        for c in found.changes
    ]
    tables: list[tuple[str, Sequence[str], Sequence[Sequence[str]]]] = [
        ("Change of each tensor", header, rows)
    ]
    if found.only:
        rows = [list(row) for row in found.only]
        tables.insert(0, ("Added and removed tensors", ("tensor", "in A", "in B"), rows))
    return tables
