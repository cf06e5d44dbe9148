"""Messages that are linear in lifted weights: nothing is stored for any edge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.nn.arrangement import Arrangement, Run
from weightspace.nn.lifted_products import lift_sums, lifted_products
from weightspace.nn.lifts import Lifting
from weightspace.nn.networks import Networks
from weightspace.nn.raw_blocks import RawBlock, raw_blocks


class Products(Protocol):
    """What multiplies lifted weights with states."""

    def __call__(
        self, block: RawBlock, lifting: Lifting, scales: Tensor, sources: Tensor, targets: Tensor
    ) -> tuple[Tensor, Tensor]:
        """See :func:`~weightspace.nn.lifted_products.lifted_products`."""


@dataclass(frozen=True, eq=False)
class LiftedEdges:
    """A batch's connections as linear messages see them: own weights, and sums of their lifts.

    Args:
        arrangement: of the batch.
        lifting: the lifts of each feature channel.
        blocks: the weights of each run.
        sums: ``[lead, targets, lifted]`` and ``[lead, sources, lifted]`` for each run.
        products: what multiplies lifted weights with states.
    """

    arrangement: Arrangement
    lifting: Lifting
    blocks: tuple[tuple[RawBlock, ...], ...]
    sums: tuple[tuple[Tensor, Tensor], ...]
    products: Products = lifted_products

    @classmethod
    def of(
        cls, networks: Networks, lifting: Lifting, *, products: Products = lifted_products
    ) -> LiftedEdges:
        """Read the weights of a batch once, for the sums that all layers share."""
        arrangement = networks.arrangement
        blocks = tuple(raw_blocks(networks, run) for run in arrangement.runs)
        sums = []
        for own in blocks:
            pairs = [lift_sums(block, lifting) for block in own]
            sums.append((_joined([t for t, _ in pairs]), _joined([s for _, s in pairs])))
        return cls(arrangement, lifting, blocks, tuple(sums), products)


class LinearMessages(nn.Module):
    """The mean of FiLM messages that are linear in lifted edges, over both directions.

    The message of Kofinas et al. 2024, ``m_ij = s(e_ij) * (A x_i + B x_j + c) + t(e_ij)`` with
    ``s`` and ``t`` affine in fixed lifts of the normalised weight, so that the sum over ``j`` is
    ``sum_f S_f * [lift_f(W) B X]_i + [sum_j s(e_ij)] * (A x_i + c) + sum_j t(e_ij)``: one matrix
    product a lift and direction, and row sums that are the same in every layer.

    Args:
        width: channels of node states.
        channels: feature channels of an edge in the common layout.
        lifts: of each channel.
    """

    def __init__(self, width: int, *, channels: int, lifts: int) -> None:
        super().__init__()
        self.lifts = lifts
        self.message = nn.Linear(2 * width, width)
        self.along, self.against = (nn.Linear(channels * lifts, 2 * width) for _ in range(2))

    def forward(
        self,
        edges: LiftedEdges,
        channels: list[list[int]],
        nodes: Float[Tensor, "nodes d"],
    ) -> Float[Tensor, "nodes d"]:
        """Average the messages at every node; zero where there are none.

        Args:
            edges: of the batch.
            channels: where each run's feature channels stand in the common layout.
            nodes: the states of all nodes.
        """
        arrangement = edges.arrangement
        receive, send = self.message.weight.chunk(2, dim=1)
        receivers = F.linear(nodes, receive, self.message.bias)
        senders = F.linear(nodes, send)
        received: list[Tensor] = []
        for place, (run, target, source) in enumerate(
            zip(
                arrangement.runs,
                arrangement.at_targets(senders),
                arrangement.at_sources(senders),
                strict=True,
            )
        ):
            films = self._films(channels[place])
            received += self._received(edges, place, run, films, source[:, 0], target[:, :, 0])
        merged = arrangement.merge(torch.cat(received))
        scale, shift, sent = merged.chunk(3, dim=1)
        degrees = arrangement.degrees.to(nodes).clamp_min(1)
        return torch.addcmul(sent + shift, scale, receivers) / degrees

    def _films(self, channels: list[int]) -> tuple[Tensor, Tensor]:
        """The maps from a run's lifts to scale and shift: ``[two, lifted, 2d]``, ``[two, 2d]``."""
        places = [c * self.lifts + lift for c in channels for lift in range(self.lifts)]
        chosen = torch.tensor(places, device=self.along.weight.device)
        maps = (self.along, self.against)
        weight = torch.stack([m.weight.index_select(1, chosen).T for m in maps])
        return weight, torch.stack([m.bias for m in maps])

    def _received(  # noqa: PLR0917 (one run's two ends)
        self,
        edges: LiftedEdges,
        place: int,
        run: Run,
        films: tuple[Tensor, Tensor],
        sources: Tensor,
        targets: Tensor,
    ) -> list[Tensor]:
        """What a run's targets and its sources receive: ``[rows, scale | shift | sent]`` each."""
        weight, bias = films
        width = sources.shape[-1]
        scales, constant = weight[..., :width], bias[:, :width]
        found, start = [], 0
        for block in edges.blocks[place]:
            lead = slice(start, start + block.values.shape[0])
            found.append(edges.products(block, edges.lifting, scales, sources[lead], targets[lead]))
            start = lead.stop
        along = _joined([t for t, _ in found]) + constant[0] * sources.sum(1, keepdim=True)
        against = _joined([s for _, s in found]) + constant[1] * targets.sum(1, keepdim=True)
        rows = []
        for way, (sums, sent, count) in enumerate(
            zip(edges.sums[place], (along, against), (run.sources, run.targets), strict=True)
        ):
            modulation = sums @ weight[way] + count * bias[way]
            rows.append(torch.cat([modulation, sent], dim=-1).flatten(0, 1))
        return rows


class LinearLayer(nn.Module):
    """Messages, then ``x' = x + SiLU(LayerNorm(Linear([x, mean, amplified mean])))``.

    The mean of many messages is also amplified by ``log(degree + 1) / delta``, as in Corso et al.
    2020, since what depends on the signs of weights averages out in wide layers.

    Args:
        width: channels of node states.
        channels: feature channels of an edge in the common layout.
        lifts: of each channel.
        delta: the mean of ``log(degree + 1)`` over the training networks' nodes.
        dropout: rate after the activation.
    """

    delta: Tensor

    def __init__(
        self, width: int, *, channels: int, lifts: int, delta: float, dropout: float
    ) -> None:
        super().__init__()
        self.messages = LinearMessages(width, channels=channels, lifts=lifts)
        self.post = nn.Linear(3 * width, width)
        self.norm = nn.LayerNorm(width)
        self.dropout = dropout
        self.register_buffer("delta", torch.tensor(delta))

    def forward(
        self, edges: LiftedEdges, channels: list[list[int]], nodes: Float[Tensor, "nodes d"]
    ) -> Float[Tensor, "nodes d"]:
        """Update the node states."""
        mean = self.messages(edges, channels, nodes)
        factor = torch.log(edges.arrangement.degrees.to(nodes) + 1) / self.delta
        own, plain, amplified = self.post.weight.chunk(3, dim=1)
        joined = F.linear(nodes, own, self.post.bias) + F.linear(mean, plain)
        joined = torch.addcmul(joined, F.linear(mean, amplified), factor)
        change = F.dropout(F.silu(self.norm(joined)), self.dropout, self.training)
        return nodes + change


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
