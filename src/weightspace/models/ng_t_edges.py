"""NG-T for size: the relational transformer over connections instead of all pairs."""

from __future__ import annotations

from weightspace.models.ng_t import NGT
from weightspace.nn.arrangement import Arrangement
from weightspace.nn.pair_layout import PairLayout
from weightspace.nn.pair_layouts import connected_pairs


class NGTEdges(NGT):
    """A relational transformer whose neurons attend to their neighbours only.

    :class:`~weightspace.models.NGT` attends over all pairs, which grows with the square of the
    neurons. Here a neuron attends to the other ends of its connections, in both directions, to
    itself and to the mean of its own node set, all under one softmax: time and memory grow with
    the number of connections. The mean brings what attention over all pairs would: neurons of
    a layer know of each other. Its pairs, too, have states that start from zero features and
    are updated; they are their own reverse. Several connections between the same two neurons
    are attended to one by one.

    >>> from weightspace.graph import chain_spec
    >>> from weightspace.models import Requirements
    >>> spec = chain_spec([2, 4, 1], activations="tanh")
    >>> sum(p.numel() for p in NGTEdges(Requirements.of([spec])).parameters()) > 300_000
    True
    """

    def layout(self, arrangement: Arrangement) -> PairLayout:
        """The pairs of neurons that have states: the connected ones."""
        return connected_pairs(arrangement)
