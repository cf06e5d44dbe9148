"""Networks in canonical phases, signs and scales, and edits of them brought back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from weightspace.graph import GraphSpec, MixedGraph, NeuralGraph
from weightspace.models.trunk import Prepared

Stacked = dict[str, Tensor]
Form = Callable[[GraphSpec, Stacked], tuple[Stacked, Stacked]]
"""Gives tensors in a canonical form, and the factors that they were multiplied by."""


def in_forms(batch: MixedGraph, forms: Callable[[GraphSpec], list[Form]]) -> Prepared:
    """Bring networks to canonical forms, one after another.

    What was edited comes back as the given network and the change divided by all factors, so
    that a network without a change comes back to the bit.

    Args:
        batch: the networks.
        forms: for a spec, its forms.
    """
    found = [_through(part, forms(part.spec)) for part in batch.parts]

    def restore(edited: MixedGraph) -> MixedGraph:
        parts = [
            _back(part, given, canonical, factors)
            for part, given, (canonical, factors) in zip(
                edited.parts, batch.parts, found, strict=True
            )
        ]
        return MixedGraph(tuple(parts), edited.order)

    parts = [_graph(part, new) for part, (new, _) in zip(batch.parts, found, strict=True)]
    return Prepared(MixedGraph(tuple(parts), batch.order), restore)


def _through(graph: NeuralGraph, forms: list[Form]) -> tuple[Stacked, Stacked]:
    stacked = graph.stacked_state()
    factors = {name: tensor.new_ones(()) for name, tensor in stacked.items()}
    for form in forms:
        stacked, more = form(graph.spec, stacked)
        factors = {name: factor * more[name] for name, factor in factors.items()}
    return stacked, factors


def _back(
    edited: NeuralGraph, given: NeuralGraph, canonical: Stacked, factors: Stacked
) -> NeuralGraph:
    own = given.stacked_state()
    for name, tensor in edited.stacked_state().items():
        if tensor.is_floating_point():
            own[name] = own[name] + (tensor - canonical[name]) / factors[name]
    return _graph(edited, own)


def _graph(like: NeuralGraph, stacked: Stacked) -> NeuralGraph:
    graph = NeuralGraph.from_stacked(like.spec, stacked)
    return replace(graph, extra=like.extra, dtypes=like.dtypes)
