"""What a page that shows a network holds, before it is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Float

from weightspace.graph import GraphSpec
from weightspace.graph.spec_table import describe_group
from weightspace.report.view_encoding import Array, encode

EXACT_NEURONS = 20_000
"""Up to so many neurons, their numbers are written to the bit."""
LISTED = 1_000
"""So many findings are listed; all are marked and counted."""


@dataclass(frozen=True)
class Mark:
    """A kind of neurons that a person should notice.

    Args:
        key: what the page calls it.
        label: its name.
        meaning: a sentence.
        colour: of the palette.
    """

    key: str
    label: str
    meaning: str
    colour: str


@dataclass(frozen=True)
class Finding:
    """Neurons that are marked, and why.

    Args:
        mark: the kind.
        axis: where they stand.
        neurons: their indices on the axis, as the page counts them.
        text: why.
    """

    mark: str
    axis: str
    neurons: tuple[int, ...]
    text: str


@dataclass(frozen=True, eq=False)
class View:
    """A page's content.

    Args:
        title: of what is shown.
        facts: pairs of a name and a value, at the top.
        notes: what a reader should know, such as what the network was run on.
        spec: the structure.
        channels: pairs of a key and a label of the maps.
        features: pairs of a key and a label of neurons' numbers.
        maps: for each block its statistics, and a map for each channel that it has.
        neurons: for each node set, each feature's numbers.
        marks: the kinds of neurons that are marked.
        findings: which neurons are.
        tables: further tables: a title, a header and rows.
    """

    title: str
    facts: Sequence[tuple[str, str]]
    notes: Sequence[str]
    spec: GraphSpec
    channels: Sequence[tuple[str, str]]
    features: Sequence[tuple[str, str]]
    maps: Mapping[str, Mapping[str, Any]]
    neurons: Mapping[str, Mapping[str, Float[Array, "neurons"]]]
    marks: Sequence[Mark] = ()
    findings: Sequence[Finding] = ()
    tables: Sequence[tuple[str, Sequence[str], Sequence[Sequence[str]]]] = field(default=())

    def as_data(self) -> dict[str, Any]:
        """The content as the page's script reads it."""
        return {
            "title": self.title,
            "channels": list(map(list, self.channels)),
            "features": list(map(list, self.features)),
            "marks": [[m.key, m.label, m.meaning, m.colour] for m in self.marks],
            "axes": _axes(self.spec),
            "layers": self._layers(),
            "blocks": self._blocks(),
            "findings": [[f.mark, f.axis, list(f.neurons), f.text] for f in self._listed()],
            "counts": {mark.key: self._count(mark.key) for mark in self.marks},
            "marked": self._marked(),
        }

    def _listed(self) -> list[Finding]:
        """The first findings of each kind, so that none hides another."""
        found: list[Finding] = []
        for mark in self.marks:
            own = [finding for finding in self.findings if finding.mark == mark.key]
            found += own[: LISTED // len(self.marks)]
        return found

    def _count(self, key: str) -> int:
        return sum(len(finding.neurons) for finding in self.findings if finding.mark == key)

    def _marked(self) -> dict[str, dict[str, list[int]]]:
        """For each axis and kind the marked neurons."""
        marked: dict[str, dict[str, list[int]]] = {}
        for finding in self.findings:
            marked.setdefault(finding.axis, {}).setdefault(finding.mark, []).extend(finding.neurons)
        return marked

    def _layers(self) -> list[dict[str, Any]]:
        exact = self.spec.node_count <= EXACT_NEURONS
        return [
            {
                "name": n.name,
                "axes": list(n.axes),
                "neurons": self.spec.nodes_in(n.name),
                "role": n.role,
                "activation": str(n.activation),
                "tensors": list(dict.fromkeys(piece.parameter for piece in n.pieces)),
                "numbers": {
                    key: encode(values, exact=exact)
                    for key, values in self.neurons.get(n.name, {}).items()
                },
            }
            for n in self.spec.node_sets
        ]

    def _blocks(self) -> list[dict[str, Any]]:
        places = {n.name: place for place, n in enumerate(self.spec.node_sets)}
        return [
            {
                "name": b.name,
                "kind": b.kind,
                "source": places[b.source],
                "target": places[b.target],
                "shape": list(self.spec.shape_of(b)),
                "tensors": [
                    [name, list(self.spec.parameter(name).shape)]
                    for name in dict.fromkeys(piece.parameter for piece in b.pieces)
                ],
                **self.maps.get(b.name, {}),
            }
            for b in self.spec.blocks
        ]


def axis_places(spec: GraphSpec, axis: str) -> list[str]:
    """The node sets that an axis stands at."""
    return [node_set.name for node_set in spec.node_sets if axis in node_set.axes]


def _axes(spec: GraphSpec) -> list[dict[str, Any]]:
    return [
        {
            "name": axis.name,
            "size": axis.size,
            "copies": spec.size_of(_parents(spec, axis.name)),
            "role": axis.role,
            "group": describe_group(spec, axis),
            "within": axis.within,
            "places": axis_places(spec, axis.name),
        }
        for axis in spec.axes
    ]


def _parents(spec: GraphSpec, axis: str) -> list[str]:
    parent = spec.axis(axis).within
    return [] if parent is None else [*_parents(spec, parent), parent]
