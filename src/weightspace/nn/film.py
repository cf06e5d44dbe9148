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
from weightspace.nn.edge_passes import EdgeInputs
from weightspace.nn.first_derivative import first_derivative
from weightspace.nn.fusion import edge_passes


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
    def forward(ctx: Any, arrangement: Arrangement, *tensors: Tensor) -> tuple[Tensor, ...]:
        given = EdgeInputs(arrangement, *tensors)
        ctx.save_for_backward(*tensors)
        ctx.arrangement = arrangement
        return edge_passes(given.edges).film(given)

    @staticmethod
    @first_derivative
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        total, squares, minimum, maximum = grads
        given = EdgeInputs(ctx.arrangement, *ctx.saved_tensors)
        passes = edge_passes(given.edges)
        found = passes.film_backward(given, (total, squares, minimum, maximum))
        return None, *found.in_order(given.arrangement)
