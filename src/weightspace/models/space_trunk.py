"""What models of a fixed weight space have in common."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.errors import ModelError
from weightspace.graph import GraphSpec
from weightspace.models.requirements import Requirements
from weightspace.models.trunk import Changes, ChangesHead, Readout, Trunk
from weightspace.nn.arrangement import Arrangement
from weightspace.nn.dws_layer import DWSLayer, layer_size
from weightspace.nn.networks import Networks
from weightspace.nn.space_pooling import Aggregate, SpaceSummary
from weightspace.nn.space_state import Channels, SpaceState
from weightspace.nn.weight_space import WeightSpace

MOST_WEIGHTS = 2**29
"""Weights of one layer: more would not fit the memory together with their optimiser."""


def space_of(requirements: Requirements, model: str) -> WeightSpace:
    """The weight space of a model that reads one architecture.

    Raises:
        ModelError: the training networks differ, or have a block that the model cannot read.
    """
    if requirements.spec is None:
        raise ModelError(
            model,
            expected="training networks of one architecture",
            found="several",
            hint="Its maps belong to the layers of one; nfn-np, nft and ng-gnn read any.",
        )
    return WeightSpace.of(requirements.spec, model=model)


def space_layers(channels: Sequence[Channels], aggregate: Aggregate, model: str) -> nn.ModuleList:
    """Layers from one state to the next.

    Raises:
        ModelError: a layer would have too many weights.
    """
    for inputs, outputs in itertools.pairwise(channels):
        size = layer_size(inputs, outputs)
        if size > MOST_WEIGHTS:
            raise ModelError(
                model,
                expected=f"at most {MOST_WEIGHTS:,} weights a layer",
                found=f"{size:,}: a map for each pair of input or output neurons",
                hint="A smaller width, or nfn-np, nft or ng-gnn.",
            )
    return nn.ModuleList(
        DWSLayer(inputs, outputs, aggregate=aggregate)
        for inputs, outputs in itertools.pairwise(channels)
    )


class SpaceTrunk(Trunk):
    """A trunk whose state is a :class:`~weightspace.nn.space_state.SpaceState`.

    Args:
        requirements: the networks it reads; of one architecture.
        name: what the model is called in messages.
        aggregate: how axes are pooled.
    """

    def __init__(self, requirements: Requirements, *, name: str, aggregate: Aggregate) -> None:
        super().__init__(requirements)
        if aggregate not in ("sum", "max", "attention"):
            raise ModelError(
                f"aggregate of {name}",
                expected="sum, max or attention",
                found=repr(aggregate),
            )
        self.name, self.aggregate = name, aggregate
        self.space = space_of(requirements, name)

    def check(self, spec: GraphSpec) -> None:
        """Check that networks of a spec can be read: they are of the architecture itself.

        Raises:
            ModelError: they are not.
        """
        if spec != self.requirements.spec:
            raise ModelError(
                "network",
                expected=f"the architecture that {self.name} was made for",
                found=f"{len(spec.blocks)} blocks, {spec.node_count} neurons, another spec",
                hint="Its maps belong to the layers of one; nfn-np, nft and ng-gnn read any.",
            )


class SpaceReadout(Readout):
    """The invariant layer and an MLP.

    Navon et al. 2023, section 4: every weight and bias pooled over its permuting axes.

    Args:
        channels: of the state.
        aggregate: how axes are pooled.
        width: of the MLP.
        layers: of the MLP.
    """

    def __init__(
        self, channels: Channels, *, aggregate: Aggregate, width: int, layers: int
    ) -> None:
        super().__init__(width)
        self.summary = SpaceSummary(channels, aggregate)
        sizes = [sum(channels.summary), *[width] * layers]
        self.mlp = nn.Sequential(
            *(nn.Sequential(nn.Linear(a, b), nn.ReLU()) for a, b in itertools.pairwise(sizes))
        )

    def forward(self, networks: Networks, state: SpaceState) -> Float[Tensor, "batch width"]:
        """Pool the state."""
        rows: Tensor = self.mlp(self.summary(state))
        return networks.in_order(rows)


class SpaceChanges(ChangesHead):
    """One more layer, to a value for each weight.

    Args:
        channels: of the state.
        aggregate: how axes are pooled.
        requirements: the networks to be edited.
    """

    def __init__(
        self, channels: Channels, *, aggregate: Aggregate, requirements: Requirements
    ) -> None:
        super().__init__()
        self.node_features = max(requirements.node_features, 1)
        self.values = Channels.features(channels.space)
        self.layer = DWSLayer(channels, self.values, aggregate=aggregate, rectify=False)

    def forward(self, networks: Networks, state: SpaceState) -> Changes:
        """Compute the changes."""
        arrangement = networks.arrangement
        values = self.values.lower(self.layer(state))
        written = [
            torch.split(tensor.write(value), list(arrangement.counts))
            for tensor, value in zip(self.values.space.tensors, values, strict=True)
        ]
        nodes, edges = {}, {}
        for tensor, parts in zip(self.values.space.tensors, written, strict=True):
            for part, value in enumerate(parts):
                if tensor.is_edge:
                    edges[part, tensor.place] = value.flatten(0, 3)
                else:
                    missing = self.node_features - value.shape[-1]
                    nodes[part, tensor.place] = F.pad(value, (0, missing))
        return Changes(
            self._nodes(arrangement, nodes, values[0]), _edges(arrangement, edges, values[0])
        )

    def _nodes(
        self, arrangement: Arrangement, nodes: dict[tuple[int, int], Tensor], like: Tensor
    ) -> Tensor:
        for section in arrangement.sections:
            if (section.part, section.place) not in nodes:
                shape = (section.count, section.neurons, self.node_features)
                nodes[section.part, section.place] = like.new_zeros(shape)
        return arrangement.join(nodes)


def _edges(
    arrangement: Arrangement, edges: dict[tuple[int, int], Tensor], like: Tensor
) -> list[Tensor]:
    changes = []
    for run in arrangement.runs:
        parts = []
        for member in run.members:
            if (member.part, member.block) in edges:
                parts.append(edges[member.part, member.block])
            else:  # an identity has no weights
                shape = arrangement.specs[member.part].shape_of(
                    arrangement.specs[member.part].blocks[member.block]
                )
                parts.append(like.new_zeros(member.count * shape.edges, shape.features))
        changes.append(torch.cat(parts) if len(parts) > 1 else parts[0])
    return changes
