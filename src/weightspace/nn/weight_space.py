"""The vector space of a spec's weights, as tensors over the axes whose neurons are exchanged.

An axis that a group permutes is a dimension; an axis that it leaves alone, such as a network's
inputs or a kernel's positions, is more channels. What is equivariant then follows from the
dimensions alone, whatever layers the network is made of.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.errors import ModelError
from weightspace.graph import EdgeBlock, GraphSpec, NeuralGraph, NodeSet
from weightspace.graph.layout import Frame


@dataclass(frozen=True)
class WeightTensor:
    """The features of one node set or block, over the axes that permute.

    Args:
        place: the node set's or block's index in the spec.
        is_edge: whether it is a block.
        sizes: of all its axes, in the order of the graph's features.
        order: the same axes' order that puts those that permute first.
        axes: those that permute; an axis that is twice here ties targets to sources.
        copies: neurons on the axes that do not: they are channels.
        features: the graph's own channels.
        shape: the graph's features of one network, but for the channels.
    """

    place: int
    is_edge: bool
    sizes: tuple[int, ...]
    order: tuple[int, ...]
    axes: tuple[str, ...]
    copies: int
    features: int
    shape: tuple[int, ...]

    def read(self, graph: NeuralGraph) -> Float[Tensor, "batch *axes channels"]:
        """Read the tensor out of graphs."""
        if self.is_edge:
            values = graph.edges[graph.spec.blocks[self.place].name]
        else:
            values = graph.nodes[graph.spec.node_sets[self.place].name]
        grid = values.reshape(len(values), *self.sizes, self.features)
        grid = grid.permute(0, *(place + 1 for place in self.order), grid.ndim - 1)
        kept = [self.sizes[place] for place in self.order[: len(self.axes)]]
        return grid.reshape(len(values), *kept, self.copies * self.features)

    def write(self, values: Tensor) -> Float[Tensor, "batch ... features"]:
        """Undo :meth:`read`, for any number of channels a copy."""
        channels = values.shape[-1] // self.copies
        grid = values.reshape(len(values), *(self.sizes[p] for p in self.order), channels)
        inverse = sorted(range(len(self.order)), key=self.order.__getitem__)
        grid = grid.permute(0, *(place + 1 for place in inverse), grid.ndim - 1)
        return grid.reshape(len(values), *self.shape, channels)


@dataclass(frozen=True)
class WeightSpace:
    """All weight tensors of a spec.

    Args:
        tensors: of the node sets, then of the blocks.
        sizes: of the axes that permute and have a tensor.
    """

    tensors: tuple[WeightTensor, ...]
    sizes: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, spec: GraphSpec, *, model: str = "this model") -> WeightSpace:
        """The space of a spec's weights.

        Raises:
            ModelError: a block or node set has three axes that permute, or one within
                another.

        >>> from weightspace.graph import chain_spec
        >>> space = WeightSpace.of(chain_spec([2, 32, 16, 1]))
        >>> [tensor.axes for tensor in space.tensors]
        [('0',), ('1',), (), ('0',), ('1', '0'), ('1',)]
        """
        owners: list[tuple[int, NodeSet | EdgeBlock]] = [
            *enumerate(spec.node_sets),
            *enumerate(spec.blocks),
        ]
        tensors = [_tensor(spec, i, owner, model) for i, owner in owners if owner.pieces]
        used = {axis for tensor in tensors for axis in tensor.axes}
        sizes = tuple((axis.name, axis.size) for axis in spec.axes if axis.name in used)
        return cls(tuple(tensors), sizes)

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """The names of the axes that permute."""
        return tuple(name for name, _ in self.sizes)

    @cached_property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The pairs of axes that have matrices, each once whichever of the two comes first."""
        found: dict[frozenset[str], tuple[str, str]] = {}
        for tensor in self.tensors:
            if len(tensor.axes) == 2:
                found.setdefault(frozenset(tensor.axes), (tensor.axes[0], tensor.axes[1]))
        return tuple(found.values())

    def matrices(self, pair: tuple[str, str]) -> list[tuple[int, bool]]:
        """The tensors over a pair of axes, and whether each has the axes the other way round."""
        return [
            (i, tensor.axes != pair)
            for i, tensor in enumerate(self.tensors)
            if len(tensor.axes) == 2 and set(tensor.axes) == set(pair)
        ]

    def vectors(self, axis: str) -> list[int]:
        """The tensors over one axis alone."""
        return [i for i, tensor in enumerate(self.tensors) if tensor.axes == (axis,)]

    @cached_property
    def scalars(self) -> list[int]:
        """The tensors over no axis that permutes."""
        return [i for i, tensor in enumerate(self.tensors) if not tensor.axes]

    def read(self, graphs: Sequence[NeuralGraph]) -> list[Tensor]:
        """Read all tensors out of graphs of the space's spec, one after another."""
        return [
            torch.cat([t.read(graph) for graph in graphs]) if len(graphs) > 1 else t.read(graphs[0])
            for t in self.tensors
        ]


def _tensor(spec: GraphSpec, place: int, owner: NodeSet | EdgeBlock, model: str) -> WeightTensor:
    is_edge = isinstance(owner, EdgeBlock)
    frame = Frame.of_block(spec, owner) if isinstance(owner, EdgeBlock) else Frame.of_nodes(owner)
    names = (*frame.shared, *frame.targets, *frame.sources)
    permuting = [i for i, name in enumerate(names) if spec.axis(name).permutes]
    what = f"block {owner.name}" if is_edge else f"node set {owner.name}"
    _check_axes(spec, [names[i] for i in permuting], what, model)
    fixed = [i for i in range(len(names)) if i not in permuting]
    sizes = tuple(spec.axis(name).size for name in names)
    shape = frame.shape(spec) if is_edge else (math.prod(sizes),)
    return WeightTensor(
        place,
        is_edge,
        sizes,
        (*permuting, *fixed),
        tuple(names[i] for i in permuting),
        math.prod(sizes[i] for i in fixed),
        owner.features,
        shape,
    )


def _check_axes(spec: GraphSpec, names: list[str], what: str, model: str) -> None:
    """Refuse what has other linear maps than matrices have."""
    hint = "ng-gnn and nfn-np read every kind of block."
    nested = [name for name in names if spec.axis(name).within is not None]
    if nested:
        raise ModelError(
            _culprit(spec, nested[0]) or what,
            expected=f"axes that {model} can permute by themselves",
            found=f"axis {nested[0]} permuted within each of {spec.axis(nested[0]).within}"
            " (groups, or the heads of attention)",
            hint=hint,
        )
    if len(names) > 2:
        raise ModelError(
            what,
            expected=f"at most two axes that permute, for {model}",
            found=", ".join(names),
            hint=hint,
        )


def _culprit(spec: GraphSpec, axis: str) -> str | None:
    """The grouped connections or the attention that an axis within another comes from."""
    for block in spec.blocks:
        ends = spec.node_set(block.source).axes + spec.node_set(block.target).axes
        if block.kind in ("grouped", "attention") and axis in ends:
            return f"block {block.name}"
    return None
