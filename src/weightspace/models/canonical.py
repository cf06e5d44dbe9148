"""Networks in canonical signs, and edits of them brought back."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from weightspace.graph import MixedGraph, NeuralGraph, canonical_flips
from weightspace.models.trunk import Prepared


def canonical_batch(batch: MixedGraph) -> Prepared:
    """Bring every network to canonical signs, see :func:`weightspace.graph.canonical_signs`."""
    found = [canonical_flips(part.spec, part.stacked_state()) for part in batch.parts]

    def restore(edited: MixedGraph) -> MixedGraph:
        parts = [
            _graph(part, {name: value * sign[name] for name, value in part.stacked_state().items()})
            for part, (_, sign) in zip(edited.parts, found, strict=True)
        ]
        return MixedGraph(tuple(parts), edited.order)

    parts = [_graph(part, new) for part, (new, _) in zip(batch.parts, found, strict=True)]
    return Prepared(MixedGraph(tuple(parts), batch.order), restore)


def _graph(like: NeuralGraph, stacked: dict[str, Tensor]) -> NeuralGraph:
    return replace(NeuralGraph.from_stacked(like.spec, stacked), extra=like.extra)
