"""A batch of networks as a metanetwork reads it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from weightspace.graph import EdgeBlock, MixedGraph, NodeSet, Normalisation
from weightspace.nn.arrangement import Arrangement, Run
from weightspace.nn.arranging import arrange
from weightspace.nn.normaliser import Normaliser

Executor = Literal["stored", "deferred"]
"""Whether states of edges are stored, or found again wherever they are read."""


@dataclass(frozen=True, eq=False)
class Networks:
    """A batch of networks, as they are and normalised, and how their neurons lie flat.

    Args:
        own: with their own weights, for models that also run them.
        given: with normalised weights, or what normalises them.
        executor: how models that have edge states keep them; the numbers are the same.

    Raises:
        StateError: the networks are normalised already, or of another spec than the normaliser's.
    """

    own: MixedGraph
    given: MixedGraph | Normaliser
    executor: Executor = "stored"

    def __post_init__(self) -> None:
        if self.normalisation is not None:
            for part in self.own.parts:
                self.normalisation.check(part)

    @cached_property
    def normal(self) -> MixedGraph:
        """With normalised weights: a copy, made when it is first asked for."""
        return self.given if isinstance(self.given, MixedGraph) else self.given(self.own)

    @cached_property
    def normalisation(self) -> Normalisation | None:
        """What is still to be applied to the features of :meth:`features`."""
        return self.given.normalisation if isinstance(self.given, Normaliser) else None

    def features(self, part: int, owner: NodeSet | EdgeBlock) -> tuple[Tensor, Tensor, Tensor]:
        """A layer's features without a copy, and the mean and deviation to normalise them by."""
        graph = (self.given if isinstance(self.given, MixedGraph) else self.own).parts[part]
        values = (graph.nodes if isinstance(owner, NodeSet) else graph.edges)[owner.name]
        if self.normalisation is None or not owner.pieces:
            like = values.new_ones(values.shape[-1])
            return values, torch.zeros_like(like), like
        mean, std = self.normalisation.of(graph.spec, owner)
        return values, mean.to(values), std.to(values)

    @cached_property
    def arrangement(self) -> Arrangement:
        """The flat order of neurons and connections."""
        return arrange(self.own)

    def __len__(self) -> int:
        return self.own.batch_size

    def node_features(self, channels: int) -> Float[Tensor, "nodes channels"]:
        """The normalised features of every node, filled up with zeros.

        Args:
            channels: at least as many as any node has.
        """
        parts = []
        for section in self.arrangement.sections:
            node_set = self.arrangement.node_set(section)
            values, mean, std = self.features(section.part, node_set)
            features = ((values - mean) / std).flatten(0, 1)
            parts.append(F.pad(features, (0, channels - features.shape[-1])))
        return torch.cat(parts)

    def edge_features(self, run: Run) -> Float[Tensor, "edges features"]:
        """The normalised features of a run's connections."""
        parts = []
        for member in run.members:
            graph = self.normal.parts[member.part]
            features = graph.edges[graph.spec.blocks[member.block].name]
            parts.append(features.flatten(0, 3))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def split_edges(self, run: Run, values: Float[Tensor, "edges d"]) -> list[Tensor]:
        """Cut values of a run's connections into those of its members' blocks.

        Returns:
            ``[networks, groups, targets, sources, d]`` for each member.
        """
        shapes = []
        for member in run.members:
            spec = self.arrangement.specs[member.part]
            shape = spec.shape_of(spec.blocks[member.block])
            shapes.append((member.count, shape.groups, shape.targets, shape.sources))
        sizes = [count * groups * targets * sources for count, groups, targets, sources in shapes]
        parts = torch.split(values, sizes)
        return [
            part.view(*shape, part.shape[-1]) for part, shape in zip(parts, shapes, strict=True)
        ]

    def in_order(self, rows: Float[Tensor, "networks d"]) -> Float[Tensor, "batch d"]:
        """Bring a row for each network of the parts to the order of the batch."""
        return self.own.in_order(rows)
