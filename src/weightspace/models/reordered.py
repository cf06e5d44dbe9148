"""Networks with their neurons in another order, and edits of them brought back."""

from __future__ import annotations

from collections.abc import Sequence

from weightspace.graph import MixedGraph, NeuralGraph, Reordering
from weightspace.models.trunk import Prepared


def reordered_batch(batch: MixedGraph, reorderings: Sequence[Reordering]) -> Prepared:
    """Reorder the neurons of every network; what is edited comes back in its own order.

    Args:
        batch: the networks.
        reorderings: one for each part.
    """

    def restore(edited: MixedGraph) -> MixedGraph:
        return _act(edited, [reordering.inverse() for reordering in reorderings])

    return Prepared(_act(batch, reorderings), restore)


def _act(batch: MixedGraph, reorderings: Sequence[Reordering]) -> MixedGraph:
    pairs: list[tuple[Reordering, NeuralGraph]] = list(zip(reorderings, batch.parts, strict=True))
    return MixedGraph(tuple(one.act_graph(part) for one, part in pairs), batch.order)
