"""NG-GNN's edge states, deferred: the weights, and what was done to the edges so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from weightspace.nn.deferred import EdgeWeights, reduce_edges
from weightspace.nn.edge_maps import DirectedMap
from weightspace.nn.edge_update import EdgeUpdate
from weightspace.nn.film import Aggregate
from weightspace.nn.fourier import FourierLinear
from weightspace.nn.networks import Networks
from weightspace.nn.pieces import Direction
from weightspace.nn.raw_blocks import raw_blocks


@dataclass(frozen=True, eq=False)
class DeferredEdges:
    """Edge states that are found again wherever they are read.

    Args:
        weights: the connections with their own weights.
        frequencies: the Fourier features' frequencies of each run's channels, by layout.
        lift: the map from Fourier features to the first states.
        steps: for each edge update so far, its map of the states before it, and what it adds at
            the receiver and at the sender.
    """

    weights: EdgeWeights
    frequencies: dict[tuple[int, ...], Tensor]
    lift: tuple[Tensor, Tensor]
    steps: tuple[tuple[DirectedMap, Tensor, Tensor], ...] = ()

    @classmethod
    def of(
        cls,
        networks: Networks,
        fourier: FourierLinear,
        channels: Sequence[Sequence[int]],
    ) -> DeferredEdges:
        """The first states, ``A [sin(B w), cos(B w)] + a``.

        Args:
            networks: the batch.
            fourier: the layer that makes them.
            channels: where each run's feature channels stand in the common layout.
        """
        arrangement = networks.arrangement
        blocks = tuple(raw_blocks(networks, run) for run in arrangement.runs)
        frequencies = {
            run.layout: fourier.frequencies[torch.tensor(own, device=fourier.frequencies.device)]
            for run, own in zip(arrangement.runs, channels, strict=True)
        }
        lift = (fourier.linear.weight, fourier.linear.bias)
        return cls(EdgeWeights(arrangement, blocks), frequencies, lift)

    def updated(
        self, update: EdgeUpdate, nodes: Float[Tensor, "nodes d"], written: DirectedMap
    ) -> DeferredEdges:
        """The states after an edge update, see :class:`~weightspace.nn.EdgeUpdate`."""
        lift = DirectedMap.of(update.edge).after(written)
        step = (lift, update.receiver(nodes), update.sender(nodes))
        return replace(self, steps=(*self.steps, step))

    def film_aggregate(
        self,
        film: DirectedMap,
        receivers: Float[Tensor, "nodes d"],
        senders: Float[Tensor, "nodes d"],
    ) -> Aggregate:
        """Messages and their aggregates, see :func:`weightspace.nn.film_aggregate`."""
        maps = [*(step[0] for step in self.steps), film]
        parameters = [*self.lift, *(tensor for m in maps for tensor in m)]
        nodes = [*((r, s) for _, r, s in self.steps), (receivers, senders)]
        program = _FilmProgram(self.frequencies, self.lift[0].shape[1])
        total, squares, minimum, maximum = reduce_edges(self.weights, program, parameters, nodes)
        merge = self.weights.arrangement.merge
        return Aggregate(
            merge(total),
            merge(squares),
            merge(minimum, torch.minimum),
            merge(maximum, torch.maximum),
        )


@dataclass(frozen=True, eq=False)
class _FilmProgram:
    """Fourier features, edge updates one after another, FiLM messages, aggregates.

    Args:
        frequencies: of each run's channels, by layout.
        width: of the Fourier features, the widest states.
    """

    frequencies: dict[tuple[int, ...], Tensor]
    width: int

    def __call__(
        self,
        way: Direction,
        weights: Float[Tensor, "l t s features"],
        parameters: Sequence[Tensor],
        receivers: Sequence[Tensor],
        senders: Sequence[Tensor],
    ) -> tuple[Tensor, ...]:
        weight, bias, *maps = parameters
        angles = weights @ self.frequencies[way.run.layout]
        states = F.linear(torch.cat([angles.sin(), angles.cos()], -1), weight, bias)
        for place, (receiver, sender) in enumerate(zip(receivers, senders, strict=True)):
            weight, bias = (m[way.index] for m in maps[2 * place : 2 * place + 2])
            mapped = F.linear(states, weight, bias)
            if place < len(receivers) - 1:
                states = F.silu(mapped + receiver + sender)
        scale, shift = mapped.chunk(2, -1)
        message = torch.addcmul(shift, scale, receivers[-1] + senders[-1])
        over = way.over
        return (
            message.sum(over),
            (message * message).sum(over),
            message.amin(over),
            message.amax(over),
        )
