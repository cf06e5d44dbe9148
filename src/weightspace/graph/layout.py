"""Reading pieces of parameter tensors into feature tensors and writing them back, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Shaped
from torch import Tensor

from weightspace.graph.binding import Piece, Side
from weightspace.graph.spec import EdgeBlock, GraphSpec, NodeSet


@dataclass(frozen=True, slots=True)
class Frame:
    """The axes of a feature tensor ``[batch, groups, targets, sources, features]``.

    Args:
        shared: the axes of the groups, outermost first.
        targets: the target's remaining axes.
        sources: the source's remaining axes.
    """

    shared: tuple[str, ...]
    targets: tuple[str, ...]
    sources: tuple[str, ...]

    @classmethod
    def of_block(cls, spec: GraphSpec, block: EdgeBlock) -> Frame:
        """The frame of a block's edge features."""
        rest = [
            tuple(axis for axis in spec.node_set(end).axes if axis not in block.shared)
            for end in (block.target, block.source)
        ]
        return cls(block.shared, rest[0], rest[1])

    @classmethod
    def of_nodes(cls, node_set: NodeSet) -> Frame:
        """The frame of a node set's features, with one group and one source."""
        return cls((), node_set.axes, ())

    @property
    def slots(self) -> tuple[tuple[Side, str], ...]:
        """Every axis with its side, in the order of the feature tensor."""
        sides: tuple[tuple[Side, tuple[str, ...]], ...] = (
            ("shared", self.shared),
            ("target", self.targets),
            ("source", self.sources),
        )
        return tuple((side, axis) for side, axes in sides for axis in axes)

    def shape(self, spec: GraphSpec) -> tuple[int, int, int]:
        """Groups, targets, sources."""
        return (spec.size_of(self.shared), spec.size_of(self.targets), spec.size_of(self.sources))


def read_piece(
    spec: GraphSpec, frame: Frame, piece: Piece, tensor: Shaped[Tensor, "batch *shape"]
) -> Shaped[Tensor, "batch groups targets sources features"]:
    """Read the features that a piece holds out of a stacked parameter tensor.

    Axes of the frame that the piece lacks are broadcast (one value for all neurons).
    """
    batch = tensor.shape[0]
    grid = piece_grid(piece, tensor)
    order, missing = _order(frame, piece)
    grid = grid.permute(0, *(place + 1 for place in order))
    for position, axis in missing:
        grid = grid.unsqueeze(position + 1)
        sizes = [-1] * grid.ndim
        sizes[position + 1] = spec.axis(axis).size
        grid = grid.expand(sizes)
    return grid.reshape(batch, *frame.shape(spec), piece.features)


def write_piece(
    spec: GraphSpec,
    frame: Frame,
    piece: Piece,
    features: Shaped[Tensor, "batch groups targets sources features"],
    tensor: Shaped[Tensor, "batch *shape"],
) -> None:
    """Write features back into their region of a stacked parameter tensor, in place.

    Where one value stands for many neurons, their mean is written; the value itself if
    they agree, so that nothing is lost to rounding.
    """
    batch = tensor.shape[0]
    order, missing = _order(frame, piece)
    axis_sizes = [spec.axis(axis).size for _, axis in frame.slots]
    feature_sizes = [f.size for f in piece.factors if f.side == "feature"]
    grid = features.reshape(batch, *axis_sizes, *feature_sizes)
    for position, _ in reversed(missing):
        grid = _agree(grid, position + 1)
    inverse = [0] * len(order)
    for new, old in enumerate(order):
        inverse[old] = new
    grid = grid.permute(0, *(place + 1 for place in inverse))
    piece_grid(piece, tensor).copy_(grid)


def piece_grid(piece: Piece, tensor: Shaped[Tensor, "batch *shape"]) -> Tensor:
    """View a piece's values with every factor as a dimension of its own.

    Splitting dimensions never copies, so the view can be written to.
    """
    region = tensor[(slice(None), *piece.region)]
    grid = region.view(tensor.shape[0], *(factor.full for factor in piece.factors))
    return grid[(slice(None), *piece.ranges)]


def _agree(values: Tensor, dimension: int) -> Tensor:
    """Reduce a dimension whose values should be equal: the first if they are, else the mean."""
    first = values.select(dimension, 0)
    if torch.equal(first.unsqueeze(dimension).expand_as(values), values):
        return first
    return values.mean(dimension)


def _order(frame: Frame, piece: Piece) -> tuple[list[int], list[tuple[int, str]]]:
    """Find where each slot of the frame stands among the piece's factors.

    Returns:
        The factor places in the order of the frame, feature factors last, and the slots of
        the frame (position, axis) that the piece lacks.
    """
    order: list[int] = []
    missing: list[tuple[int, str]] = []
    for position, slot in enumerate(frame.slots):
        place = _find(piece, slot)
        if place is None:
            missing.append((position, slot[1]))
        else:
            order.append(place)
    order += [place for place, factor in enumerate(piece.factors) if factor.side == "feature"]
    return order, missing


def _find(piece: Piece, slot: tuple[Side, str]) -> int | None:
    for place, factor in enumerate(piece.factors):
        if (factor.side, factor.axis) == slot:
            return place
    return None


def permute_grid(
    grid: Tensor,
    axes: Sequence[str | None],
    permutations: dict[str, Tensor],
    parents: dict[str, str | None],
    *,
    offset: int = 0,
) -> Tensor:
    """Reorder a tensor whose dimensions are axes: ``new[i] = old[permutation[i]]``.

    An axis within another has a permutation for each element of its parent; it is applied
    after the parent's own, so the parent's new positions choose it.

    Args:
        grid: the tensor, with one dimension for each factor.
        axes: the axis of each dimension, None for plain sizes.
        permutations: ``[size]`` for each axis, ``[*parents' sizes, size]`` for nested axes.
        parents: the axis that each axis is nested in.
        offset: leading dimensions of ``grid`` to pass over.
    """
    for place in _parents_first(axes, parents):
        axis = axes[place]
        assert axis is not None
        if axis not in permutations:
            continue
        chain = [at + offset for at in parent_places(axes, place, parents)]
        grid = _permute(grid, place + offset, permutations[axis], chain)
    return grid


def parent_places(
    axes: Sequence[str | None], place: int, parents: dict[str, str | None]
) -> list[int]:
    """Where the axes stand that the axis at a place is nested in, outermost first.

    A tensor may have an axis twice, such as a square weight between tied neurons: then the
    parent is the nearest one before its child.
    """
    found: list[int] = []
    for parent in ancestors(str(axes[place]), parents):
        places = [i for i, axis in enumerate(axes) if axis == parent]
        found.append(max((i for i in places if i < place), default=places[0]))
    return found


def _permute(grid: Tensor, place: int, permutation: Tensor, parents: list[int]) -> Tensor:
    permutation = permutation.to(grid.device)
    if not parents:
        return grid.index_select(place, permutation)
    first = place - len(parents)
    if parents == list(range(first, place)):
        # Parents and children side by side are one dimension: rows are moved whole.
        size = permutation.shape[-1]
        rows = torch.arange(0, permutation.numel(), size, device=grid.device)
        index = rows[:, None] + permutation.reshape(-1, size)
        moved = grid.flatten(first, place).index_select(first, index.flatten())
        return moved.reshape(grid.shape)
    places = [*parents, place]
    order = sorted(range(len(places)), key=places.__getitem__)
    shape = [grid.shape[i] if i in places else 1 for i in range(grid.ndim)]
    index = permutation.permute(order).reshape(shape)
    return grid.gather(place, index.expand(grid.shape))


def ancestors(axis: str, parents: dict[str, str | None]) -> list[str]:
    """The axes an axis is nested in, outermost first."""
    chain: list[str] = []
    parent = parents[axis]
    while parent is not None:
        chain.insert(0, parent)
        parent = parents[parent]
    return chain


def _parents_first(axes: Sequence[str | None], parents: dict[str, str | None]) -> list[int]:
    places = [place for place, axis in enumerate(axes) if axis is not None]
    return sorted(places, key=lambda place: len(ancestors(str(axes[place]), parents)))
