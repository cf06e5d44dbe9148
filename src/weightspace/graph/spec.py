"""The graph specification: which neurons, which connections, which tensor holds what."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, TypeVar

from weightspace.errors import SpecError, similar_name
from weightspace.graph.activations import NONE, Activation
from weightspace.graph.axis import Axis, Mixing, Rescaling, Role
from weightspace.graph.binding import LeftOut, Parameter, Piece

BlockKind = Literal[
    "dense", "diagonal", "identity", "grouped", "attention", "recurrent", "embedding"
]


@dataclass(frozen=True, slots=True)
class NodeSet:
    """The neurons of one place in the network.

    Args:
        name: unique in a spec; for a layer's outputs the layer's module path.
        axes: the axes whose row-major product the neurons are; nearly always one.
        role: input, hidden or output.
        activation: the function applied to the neurons' sums.
        pieces: the parameters that are features of the neurons (biases, norm shifts).
    """

    name: str
    axes: tuple[str, ...]
    role: Role
    activation: Activation = NONE
    pieces: tuple[Piece, ...] = ()

    @property
    def features(self) -> int:
        """The number of feature channels."""
        return sum(piece.features for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class EdgeBlock:
    """All connections between two node sets.

    Every block, whatever its kind, has features of shape
    ``[batch, groups, targets, sources, features]``: neuron ``t`` of group ``g`` of the target
    is connected with neuron ``s`` of the same group of the source. A dense block has one
    group; a diagonal or identity block has one target and one source in each group.

    Args:
        name: unique in a spec.
        source: the node set the connections leave.
        target: the node set they enter.
        kind: what the block stands for.
        shared: the axes common to both ends that index the groups.
        pieces: the parameters that are features of the connections; none for an identity
            block, whose one feature is 1.
    """

    name: str
    source: str
    target: str
    kind: BlockKind = "dense"
    shared: tuple[str, ...] = ()
    pieces: tuple[Piece, ...] = ()

    @property
    def features(self) -> int:
        """The number of feature channels."""
        return sum(piece.features for piece in self.pieces) if self.pieces else 1


class BlockShape(NamedTuple):
    """The sizes of a block: groups, targets and sources in each group, feature channels."""

    groups: int
    targets: int
    sources: int
    features: int

    @property
    def edges(self) -> int:
        """The number of connections."""
        return self.groups * self.targets * self.sources


@dataclass(frozen=True)
class GraphSpec:
    """A network's structure without its numbers. Immutable, hashable, prints as a table.

    Args:
        axes: the neuron axes.
        node_sets: the places of the network, inputs first, in the order of computation.
        blocks: the connections, in the order of computation.
        parameters: every tensor of the state dict that is in the graph.
        left_out: every other tensor of the state dict, with the reason.
        rescalings: the factors of neurons that leave the function unchanged.
        mixings: the invertible matrices on neurons that leave the function unchanged.

    Raises:
        SpecError: names are doubled, references lead nowhere, or a tensor's pieces do not
            fit its shape.

    >>> from weightspace.graph import chain_spec
    >>> spec = chain_spec([2, 3, 1], activations="relu")
    >>> spec.node_count, spec.edge_count
    (6, 9)
    """

    axes: tuple[Axis, ...]
    node_sets: tuple[NodeSet, ...]
    blocks: tuple[EdgeBlock, ...]
    parameters: tuple[Parameter, ...]
    left_out: tuple[LeftOut, ...] = ()
    rescalings: tuple[Rescaling, ...] = ()
    mixings: tuple[Mixing, ...] = ()

    def __post_init__(self) -> None:
        _check_unique("axis", self.axes)
        _check_unique("node set", self.node_sets)
        _check_unique("block", self.blocks)
        names = [p.name for p in self.parameters] + [lo.parameter.name for lo in self.left_out]
        _check_names("parameter", names)
        _check_unique("rescaling", self.rescalings)
        _check_names("mixing", [mixing.name for mixing in self.mixings])
        for name in [r.axis for r in self.rescalings] + [m.axis for m in self.mixings]:
            self.axis(name)
        for axis in self.axes:
            if axis.within is not None:
                self.axis(axis.within)
        for node_set in self.node_sets:
            for name in node_set.axes:
                self.axis(name)
        for item in self.left_out:
            if item.same_as is not None:
                self.parameter(item.same_as)
        for block in self.blocks:
            self._check_block(block)
        for piece in self.pieces:
            self._check_piece(piece)

    def _check_block(self, block: EdgeBlock) -> None:
        for end in (self.node_set(block.source), self.node_set(block.target)):
            missing = set(block.shared) - set(end.axes)
            if missing:
                raise SpecError(
                    f"block {block.name}",
                    expected=f"axes {block.shared} on both ends",
                    found=f"{end.name} without {sorted(missing)}",
                )
        if not block.pieces and block.kind != "identity":
            raise SpecError(
                f"block {block.name}",
                expected="pieces for its features",
                found=f"none on a block of kind {block.kind}",
            )

    def _check_piece(self, piece: Piece) -> None:
        parameter = self.parameter(piece.parameter)
        if len(piece.spans) != len(parameter.shape):
            raise SpecError(
                f"parameter {parameter.name}",
                expected=f"{len(piece.spans)} dimensions",
                found=str(parameter.shape),
            )
        for span, size in zip(piece.spans, parameter.shape, strict=True):
            if span.start + span.length > size:
                raise SpecError(
                    f"parameter {parameter.name}",
                    found=f"size {size}",
                    expected=f"a dimension that holds [{span.start}, {span.start + span.length})",
                )
        for factor in piece.factors:
            if factor.axis is not None and self.axis(factor.axis).size != factor.size:
                raise SpecError(
                    f"parameter {parameter.name}",
                    found=f"size {factor.size}",
                    expected=f"size {self.axis(factor.axis).size} on {factor.axis}",
                )

    # -- looking things up ---------------------------------------------------------------

    @cached_property
    def _axes(self) -> Mapping[str, Axis]:
        return {axis.name: axis for axis in self.axes}

    @cached_property
    def _node_sets(self) -> Mapping[str, NodeSet]:
        return {node_set.name: node_set for node_set in self.node_sets}

    @cached_property
    def _parameters(self) -> Mapping[str, Parameter]:
        return {parameter.name: parameter for parameter in self.parameters}

    def axis(self, name: str) -> Axis:
        """The axis of this name."""
        return _look_up("axis", name, self._axes)

    def node_set(self, name: str) -> NodeSet:
        """The node set of this name."""
        return _look_up("node set", name, self._node_sets)

    def block(self, name: str) -> EdgeBlock:
        """The block of this name."""
        return _look_up("block", name, {block.name: block for block in self.blocks})

    def parameter(self, name: str) -> Parameter:
        """The parameter of this name."""
        return _look_up("parameter", name, self._parameters)

    def of_role(self, role: Role) -> tuple[NodeSet, ...]:
        """The node sets of one role, in order."""
        return tuple(node_set for node_set in self.node_sets if node_set.role == role)

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """Every piece of every node set and block."""
        owners: tuple[NodeSet | EdgeBlock, ...] = (*self.node_sets, *self.blocks)
        return tuple(piece for owner in owners for piece in owner.pieces)

    # -- sizes ---------------------------------------------------------------------------

    def size_of(self, axes: Iterable[str]) -> int:
        """The number of neurons on a product of axes."""
        return math.prod(self.axis(name).size for name in axes)

    def nodes_in(self, name: str) -> int:
        """The number of neurons of a node set."""
        return self.size_of(self.node_set(name).axes)

    def shape_of(self, block: EdgeBlock) -> BlockShape:
        """The sizes of a block."""
        groups = self.size_of(block.shared)
        return BlockShape(
            groups,
            self.nodes_in(block.target) // groups,
            self.nodes_in(block.source) // groups,
            block.features,
        )

    @property
    def node_count(self) -> int:
        """The number of neurons."""
        return sum(self.nodes_in(node_set.name) for node_set in self.node_sets)

    @property
    def edge_count(self) -> int:
        """The number of connections."""
        return sum(self.shape_of(block).edges for block in self.blocks)

    @property
    def parameter_count(self) -> int:
        """The number of values in the graph's tensors."""
        return sum(parameter.numel for parameter in self.parameters)

    # -- identity and looks --------------------------------------------------------------

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the contents, the same in every process: specs are equal if it is."""
        from weightspace.graph.spec_json import spec_to_json  # noqa: PLC0415 (mutual)

        return hashlib.sha256(spec_to_json(self).encode()).hexdigest()[:16]

    def __hash__(self) -> int:
        return int(self.fingerprint, 16)

    def __str__(self) -> str:
        from weightspace.graph.spec_table import spec_table  # noqa: PLC0415 (mutual)

        return spec_table(self)

    def _repr_html_(self) -> str:
        """What notebooks show."""
        from weightspace.graph.display import spec_html  # noqa: PLC0415 (mutual)

        return spec_html(self)


def _check_names(what: str, names: list[str]) -> None:
    doubled = sorted(name for name, count in Counter(names).items() if count > 1)
    if doubled:
        raise SpecError(what, expected="names that differ", found=f"{doubled} more than once")


def _check_unique(
    what: str,
    things: tuple[Axis, ...] | tuple[NodeSet, ...] | tuple[EdgeBlock, ...] | tuple[Rescaling, ...],
) -> None:
    _check_names(what, [thing.name for thing in things])


T = TypeVar("T")


def _look_up(what: str, name: str, table: Mapping[str, T]) -> T:
    if name not in table:
        raise SpecError(
            f"{what} {name!r}",
            expected=f"one of {', '.join(table) or 'none'}",
            found="a name that the spec does not have",
            hint=similar_name(name, table),
        )
    return table[name]
