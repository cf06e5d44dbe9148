"""Metanetworks that edit: networks in, changed networks out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from weightspace.graph import Batch, MixedGraph, NeuralGraph
from weightspace.graph.normalisation import owners
from weightspace.graph.tying import trained_changes
from weightspace.models.metanetwork import Metanetwork, Read, own_precision
from weightspace.models.trunk import Changes, Trunk

FIRST_SCALE = 0.01


class Editor(Metanetwork):
    """Edit networks: ``theta' = theta + s_l sigma_l delta(theta)``.

    Kofinas et al. 2024, section 4.2, and Navon et al. 2023, section 7: the trunk gives one value
    for each parameter, in units of its layer's deviation ``sigma_l`` over the training networks;
    a learned scale ``s_l`` of each layer, 0.01 at first, makes an untrained editor nearly the
    identity. Equivariant: permuted neurons give permuted edits. A value that stands at several
    places (tied weights, one slope for all neurons) changes by the mean of their changes;
    buffers, such as running statistics, which no training step changes either, stay.

    Args:
        trunk: one paper's model.
        canonical: whether networks are first brought to canonical signs; edits come back in
            the networks' own.

    >>> from weightspace.graph import NeuralGraph, chain_spec
    >>> from weightspace.models import NGGNN, Requirements
    >>> spec = chain_spec([2, 4, 1], activations="tanh")
    >>> graph = NeuralGraph.from_states(spec, [{p.name: torch.ones(p.shape) for p in
    ...     spec.parameters}])
    >>> Editor(NGGNN(Requirements.of([spec])))(graph).edges["0.weight"].shape
    torch.Size([1, 1, 4, 2, 1])
    """

    def __init__(self, trunk: Trunk, *, canonical: bool = False) -> None:
        super().__init__(trunk, canonical=canonical)
        self.changes = trunk.make_changes()
        keys = trunk.requirements.statistics
        self._places = {key: place for place, (key, _) in enumerate(keys)}
        self.scales = nn.ParameterList(torch.full((size,), FIRST_SCALE) for _, size in keys)

    def forward(self, batch: Batch) -> Batch:
        """Edit networks; the result is of the kind that was given."""
        with own_precision(next(self.parameters()).device):
            read = self.read(batch)
            changes: Changes = self.changes(read.networks, read.state)
            edited = read.prepared.restore(self._edited(read, changes))
        return edited if isinstance(batch, MixedGraph) else edited.parts[0]

    def _edited(self, read: Read, changes: Changes) -> MixedGraph:
        own, arrangement = read.networks.own, read.networks.arrangement
        nodes: list[dict[str, Tensor]] = [{} for _ in own.parts]
        edges: list[dict[str, Tensor]] = [{} for _ in own.parts]
        scales = [self._scales(part) for part in own.parts]
        for (part, place), values in arrangement.split(changes.nodes).items():
            name = own.parts[part].spec.node_sets[place].name
            if f"node:{name}" in scales[part]:
                scale = scales[part][f"node:{name}"]
                nodes[part][name] = values[..., : len(scale)] * scale
        for run, rows in zip(arrangement.runs, changes.edges, strict=True):
            for member, values in zip(
                run.members, read.networks.split_edges(run, rows), strict=True
            ):
                name = own.parts[member.part].spec.blocks[member.block].name
                if f"edge:{name}" in scales[member.part]:
                    edges[member.part][name] = values * scales[member.part][f"edge:{name}"]
        parts = [
            _changed(part, *trained_changes(part.spec, n, e))
            for part, n, e in zip(own.parts, nodes, edges, strict=True)
        ]
        return MixedGraph(tuple(parts), own.order)

    def _scales(self, graph: NeuralGraph) -> dict[str, Tensor]:
        """The learned scale times the deviation of each layer."""
        normalisation = self.normaliser.normalisation
        found = {}
        for owner in owners(graph.spec):
            key = normalisation.key_of(graph.spec, owner)
            scale = self.scales[self._places[key]]
            kind = "edge" if hasattr(owner, "source") else "node"
            found[f"{kind}:{owner.name}"] = scale * normalisation.scale_of(graph.spec, owner)
        return found


def _changed(
    graph: NeuralGraph, nodes: Mapping[str, Tensor], edges: Mapping[str, Tensor]
) -> NeuralGraph:
    return replace(
        graph,
        nodes={n: t + nodes[n] if n in nodes else t for n, t in graph.nodes.items()},
        edges={n: t + edges[n] if n in edges else t for n, t in graph.edges.items()},
    )
