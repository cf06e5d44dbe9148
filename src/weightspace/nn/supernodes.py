"""Supernodes: neurons of wide layers that exchange messages as groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from weightspace.errors import ModelError
from weightspace.nn.lifted_products import Lifter, lifted_products
from weightspace.nn.lifts import Lifting
from weightspace.nn.linear_messages import LiftedEdges
from weightspace.nn.networks import Networks
from weightspace.nn.raw_blocks import RawBlock

ROUNDS = 3
"""How often neurons are assigned again to the nearest mean of a cluster."""


def with_supernodes(edges: LiftedEdges, networks: Networks, count: int) -> LiftedEdges:
    """Let wide layers' neurons exchange messages as at most ``count`` supernodes each.

    Neurons that are alike (their biases and the sums of their lifted weights are near) make a
    cluster. A message between two clusters is the mean over their neurons' connections times the
    mean state of the senders: of a weight matrix only ``count * count`` sums are kept, found in
    one pass that all layers share. Each neuron keeps a state of its own, and connections between
    small layers, within groups, or from neuron to neuron stay exact. Exact where the neurons of
    each cluster are duplicates. Equivariant, up to ties of distances.

    Args:
        edges: of one network.
        networks: the same.
        count: the most supernodes of a node set.

    Raises:
        ModelError: there are several networks.
    """
    if len(networks) != 1:
        raise ModelError(
            "supernodes",
            expected="one network at a time",
            found=f"a batch of {len(networks)}",
            hint="Small networks are read faster without supernodes.",
        )
    labels = cluster_labels(edges, networks, count)
    coarse: dict[RawBlock, CoarseBlock] = {}
    sums = list(edges.sums)
    for place, (run, blocks) in enumerate(zip(edges.arrangement.runs, edges.blocks, strict=True)):
        if run.lead > 1 or max(run.targets, run.sources) <= count or blocks[0].few:
            continue
        targets, sources = labels[run.target], labels[run.source]
        block = CoarseBlock.of(blocks[0], edges.lifting, targets, sources)
        coarse[blocks[0]] = block
        sums[place] = block.lift_sums()
    return replace(edges, sums=tuple(sums), products=SupernodeProducts(coarse))


@dataclass(frozen=True, eq=False)
class CoarseBlock:
    """Sums of a block's lifted weights between clusters.

    Args:
        sums: ``[lifted, target clusters, source clusters]``.
        targets: the cluster of each target.
        sources: the cluster of each source.
    """

    sums: Float[Tensor, "lifted t s"]
    targets: Int[Tensor, " targets"]
    sources: Int[Tensor, " sources"]

    @classmethod
    def of(cls, block: RawBlock, lifting: Lifting, targets: Tensor, sources: Tensor) -> CoarseBlock:
        """Sum a block's lifted weights, piece by piece."""
        at_target, at_source = (_members(labels, block.values) for labels in (targets, sources))
        if block.values.requires_grad and torch.is_grad_enabled():
            lifted = lifting(block.normal)[0]
            sums = torch.einsum("ijf,it,js->fts", lifted, at_target, at_source)
            return cls(sums, targets, sources)
        lifter = Lifter(block, lifting, at_source.shape[1])
        features = block.values.shape[3] * lifting.count
        sums = block.values.new_zeros(features, at_target.shape[1], at_source.shape[1])
        for lead, ranges in lifter.pieces:
            for rows in ranges:
                sums += at_target[rows].T @ (lifter(lead, rows)[0] @ at_source)
        return cls(sums, targets, sources)

    def lift_sums(self) -> tuple[Tensor, Tensor]:
        """The sums of lifted weights at each target and source, averaged in its cluster."""
        at_target = (self.sums.sum(2).T / _sizes(self.targets, self.sums)).index_select(
            0, self.targets
        )
        at_source = (self.sums.sum(1).T / _sizes(self.sources, self.sums)).index_select(
            0, self.sources
        )
        return at_target.unsqueeze(0), at_source.unsqueeze(0)

    def products(self, scales: Tensor, sources: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """What targets and sources receive; the same within a cluster."""
        along = _received(self.sums, scales[0], sources[0], self.sources, self.targets)
        back = self.sums.transpose(1, 2)
        against = _received(back, scales[1], targets[0], self.targets, self.sources)
        return along.unsqueeze(0), against.unsqueeze(0)


@dataclass(frozen=True, eq=False)
class SupernodeProducts:
    """Products of lifted weights with states, between clusters where a block has them.

    Args:
        coarse: the blocks that have.
    """

    coarse: Mapping[RawBlock, CoarseBlock]

    def __call__(
        self, block: RawBlock, lifting: Lifting, scales: Tensor, sources: Tensor, targets: Tensor
    ) -> tuple[Tensor, Tensor]:
        """See :func:`~weightspace.nn.lifted_products.lifted_products`."""
        if block in self.coarse:
            return self.coarse[block].products(scales, sources, targets)
        return lifted_products(block, lifting, scales, sources, targets)


def cluster_labels(edges: LiftedEdges, networks: Networks, count: int) -> Int[Tensor, " nodes"]:
    """The cluster of every node in its node set; of sets that are not wide, the node itself."""
    arrangement = edges.arrangement
    found: dict[int, list[Tensor]] = {section.start: [] for section in arrangement.sections}
    for run, sums in zip(arrangement.runs, edges.sums, strict=True):
        for rows, values in zip((run.target, run.source), sums, strict=True):
            start, ordered = _in_node_order(rows, values.detach().flatten(0, 1))
            found[start].append(ordered)
    labels = []
    for section in arrangement.sections:
        if section.neurons <= count:
            labels.append(torch.arange(section.neurons))
            continue
        values, _, _ = networks.features(section.part, arrangement.node_set(section))
        traits = torch.cat([values[0].detach(), *found[section.start]], dim=1)
        labels.append(_clusters(traits, count))
    return torch.cat(labels).to(networks.own.device)


def _in_node_order(rows: slice | Tensor, values: Tensor) -> tuple[int, Tensor]:
    if isinstance(rows, slice):
        return rows.start, values
    start = int(rows.min())
    ordered = torch.empty_like(values)
    ordered[(rows - start).to(values.device)] = values
    return start, ordered


def _clusters(traits: Float[Tensor, "n traits"], count: int) -> Int[Tensor, " n"]:
    """Lloyd's rounds from centres that lie far apart (Gonzalez 1985), without randomness."""
    points = traits.double()
    spread = points.std(0, correction=0)
    points = (points - points.mean(0)) / torch.where(spread > 1e-12, spread, 1.0)
    nearest = points.square().sum(1)
    centres = []
    for _ in range(count):
        centres.append(points[nearest.argmax()])
        distance = (points - centres[-1]).square().sum(1)
        nearest = distance if len(centres) == 1 else torch.minimum(nearest, distance)
    means = torch.stack(centres)
    for _ in range(ROUNDS):
        labels = torch.cdist(points, means).argmin(1)
        total = torch.zeros_like(means).index_add_(0, labels, points)
        size = torch.bincount(labels, minlength=count).unsqueeze(1)
        means = torch.where(size > 0, total / size.clamp_min(1), means)
    nearest = torch.cdist(points, means).argmin(1)
    numbered: Tensor
    _, numbered = torch.unique(nearest, return_inverse=True)
    return numbered


def _members(labels: Tensor, like: Tensor) -> Float[Tensor, "n clusters"]:
    return torch.eye(int(labels.max()) + 1, dtype=like.dtype, device=like.device)[labels]


def _sizes(labels: Tensor, like: Tensor) -> Float[Tensor, "clusters 1"]:
    return torch.bincount(labels).unsqueeze(1).to(like)


def _received(
    sums: Float[Tensor, "lifted t s"],
    scales: Float[Tensor, "lifted d"],
    states: Float[Tensor, "senders d"],
    senders: Tensor,
    receivers: Tensor,
) -> Float[Tensor, "receivers d"]:
    size = _sizes(senders, states)
    pooled = states.new_zeros(len(size), states.shape[1]).index_add(0, senders, states) / size
    each = (sums @ pooled * scales.unsqueeze(1)).sum(0) / _sizes(receivers, states)
    return each.index_select(0, receivers)
