"""Feature-wise linear modulation of messages, and their aggregation.

The naive computation writes a dozen temporaries as large as all edges of a batch, and on a CPU
most of its time goes into fetching their pages. Here forward and backward go over the edges in
passes (:mod:`weightspace.nn.edge_passes`) that keep what they need in the processor's cache, the
map from edge states to scales and shifts included: nothing as large as the edges is written but
the gradient of their states.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function

from weightspace.nn.arrangement import Arrangement
from weightspace.nn.edge_maps import DirectedMap
from weightspace.nn.edge_passes import LiftedEdges
from weightspace.nn.first_derivative import first_derivative
from weightspace.nn.fusion import edge_passes
from weightspace.nn.pieces import Ends, bundled_directions


class Aggregate(NamedTuple):
    """Sums, sums of squares, minima and maxima of messages at each neuron."""

    total: Tensor
    squares: Tensor
    minimum: Tensor
    maximum: Tensor

    def statistics(self, count: Tensor) -> Float[Tensor, "... 4d"]:
        """Mean, minimum, maximum and deviation of ``count`` messages at each neuron."""
        mean = self.total / count
        variance = (self.squares / count - mean * mean).clamp_min(0.0)
        deviation = (variance + 1e-5).sqrt()
        return torch.cat([mean, self.minimum, self.maximum, deviation], dim=-1)


def film_aggregate(
    arrangement: Arrangement,
    edges: Float[Tensor, "two edges d"],
    film: DirectedMap,
    receivers: Float[Tensor, "nodes d"],
    senders: Float[Tensor, "nodes d"],
) -> Aggregate:
    """Compute ``m_ij = s_ij * (A x_i + B x_j) + t_ij`` and aggregate at each ``i``.

    Kofinas et al. 2024, appendix on PNA with edge features, with ``[s, t] = F e + f``. Messages
    run along every connection and against it. Where several of a run are the minimum or
    maximum together, they share its gradient evenly, and so do runs.

    Args:
        arrangement: of the batch.
        edges: the states along connections and against them.
        film: the map to scale and shift of each direction.
        receivers: ``A x_i``.
        senders: ``B x_j``.
    """
    outputs = _FilmAggregate.apply(  # type: ignore[no-untyped-call]
        arrangement, edges, film.weight, film.bias, receivers, senders
    )
    total, squares, minimum, maximum = outputs
    return Aggregate(
        arrangement.merge(total),
        arrangement.merge(squares),
        arrangement.merge(minimum, torch.minimum),
        arrangement.merge(maximum, torch.maximum),
    )


class _FilmAggregate(Function):
    @staticmethod
    def forward(  # noqa: PLR0917 (autograd passes by position)
        ctx: Any,
        arrangement: Arrangement,
        edges: Tensor,
        weight: Tensor,
        bias: Tensor,
        receivers: Tensor,
        senders: Tensor,
    ) -> tuple[Tensor, ...]:
        count, width = arrangement.received_count, receivers.shape[-1]
        outputs = tuple(receivers.new_empty(count, width) for _ in range(4))
        passes = edge_passes(edges)
        for way in bundled_directions(arrangement):
            d, states = way.index, edges[way.index, way.run.edges]
            ends = Ends.of(way, receivers, senders)
            found = passes.film(LiftedEdges(way, states, weight[d], bias[d], ends))
            for values, output in zip(found, outputs, strict=True):
                way.deliver(values, output)
        ctx.save_for_backward(edges, weight, bias, receivers, senders)
        ctx.arrangement = arrangement
        return outputs

    @staticmethod
    @first_derivative
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        edges, weight, bias, receivers, senders = ctx.saved_tensors
        d_edges = torch.empty_like(edges, memory_format=torch.contiguous_format)
        d_weight, d_bias = torch.zeros_like(weight), torch.zeros_like(bias)
        arrangement: Arrangement = ctx.arrangement
        rows = arrangement.received_count, receivers.shape[-1]
        d_receivers, d_senders = receivers.new_empty(rows), senders.new_empty(rows)
        passes = edge_passes(edges)
        for way in bundled_directions(arrangement):
            d, own = way.index, way.run.edges
            ends = Ends.of(way, receivers, senders)
            given = [way.each(grad) for grad in grads]
            lifted = LiftedEdges(way, edges[d, own], weight[d], bias[d], ends)
            d_map, d_shift, d_ends = passes.film_backward(lifted, given, d_edges[d, own])
            d_weight[d] += d_map
            d_bias[d] += d_shift
            way.deliver(d_ends.of_receivers, d_receivers)
            way.opposite.deliver(d_ends.of_senders, d_senders)
        merged = arrangement.merge(d_receivers), arrangement.merge(d_senders)
        return None, d_edges, d_weight, d_bias, *merged
