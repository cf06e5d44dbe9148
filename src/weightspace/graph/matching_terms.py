"""Two networks' tensors side by side, and the axes that permute in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from weightspace.graph.layout import ancestors, parent_places, permute_grid
from weightspace.graph.reordering import BATCH
from weightspace.graph.spec import GraphSpec

Axes = tuple[str | None, ...]
Permutations = dict[str, Tensor]


@dataclass(frozen=True)
class Tree:
    """The axes that permute, or hold axes that do.

    Args:
        sizes: of the axes.
        permutes: whether each permutes itself.
        parents: the axis each is nested in, the outermost ones in the batch.
    """

    sizes: Mapping[str, int]
    permutes: Mapping[str, bool]
    parents: dict[str, str | None]

    @classmethod
    def of(cls, spec: GraphSpec) -> Tree:
        """The tree of a spec."""
        moves = {axis.name: axis.permutes and axis.size > 1 for axis in spec.axes}
        parents = {axis.name: axis.within for axis in spec.axes}
        kept = {a for name in moves if moves[name] for a in (*ancestors(name, parents), name)}
        return cls(
            {axis.name: axis.size for axis in spec.axes if axis.name in kept},
            {name: moves[name] for name in kept},
            {BATCH: None, **{a.name: a.within or BATCH for a in spec.axes if a.name in kept}},
        )

    def inside(self, name: str) -> Tree:
        """The tree of what is nested in an axis, for one of its elements."""
        kept = [axis for axis in self.sizes if name in ancestors(axis, self.parents)]
        parents = {axis: self.parents[axis] for axis in kept}
        return Tree(
            {axis: self.sizes[axis] for axis in kept},
            {axis: self.permutes[axis] for axis in kept},
            {BATCH: None, **{a: BATCH if p == name else p for a, p in parents.items()}},
        )

    @cached_property
    def roots(self) -> list[str]:
        """The axes that are nested in none."""
        return [axis for axis in self.sizes if self.parents[axis] == BATCH]

    def named(self, axes: Iterable[str | None]) -> Axes:
        """Forget the names of axes that never move."""
        return tuple(name if name in self.sizes else None for name in axes)

    def identity(self, batch: int) -> Permutations:
        """The permutations that change nothing."""
        found = {}
        for axis, permutes in self.permutes.items():
            outer = [self.sizes[a] for a in ancestors(axis, self.parents) if a != BATCH]
            if permutes:
                size = self.sizes[axis]
                found[axis] = torch.arange(size).expand(batch, *outer, size).clone()
        return found


@dataclass(frozen=True, eq=False)
class Term:
    """One tensor of both networks.

    Args:
        fixed: of the network that stays, ``[1 or batch, *sizes]``.
        moving: of the others, ``[batch, *sizes]``.
        axes: the axis of each dimension, None for those that stay as they are.
    """

    fixed: Tensor
    moving: Tensor
    axes: Axes

    def product(self, permutations: Permutations, tree: Tree) -> Float[Tensor, " batch"]:
        """The inner products of the fixed network with the permuted ones."""
        # A term of single values (of a group's neurons, inside it) has no dimension to flatten.
        moved = rows_of(self._permuted(self.axes, permutations, tree))
        fixed = rows_of(self.fixed)
        if len(fixed) == 1:
            return moved @ fixed[0]
        return torch.bmm(fixed.unsqueeze(1), moved.unsqueeze(2)).flatten()

    def freed(self, place: int, permutations: Permutations, tree: Tree) -> Term:
        """Bring an axis to the front, unpermuted as what is nested in it; permute the others."""
        every = (BATCH, *self.axes)
        inside = [
            name is not None and place + 1 in parent_places(every, i + 1, tree.parents)
            for i, name in enumerate(self.axes)
        ]
        others = [
            None if i == place or inner else name
            for i, (name, inner) in enumerate(zip(self.axes, inside, strict=True))
        ]
        moved = self._permuted(others, permutations, tree)
        left = [
            name if inner else None
            for i, (name, inner) in enumerate(zip(self.axes, inside, strict=True))
            if i != place
        ]
        return Term(self.fixed.movedim(place + 1, 1), moved.movedim(place + 1, 1), tuple(left))

    def rows(self, chosen: Int[Tensor, " some"]) -> Term:
        """Take some of the batch."""
        fixed = self.fixed if len(self.fixed) == 1 else self.fixed[chosen]
        return Term(fixed, self.moving[chosen], self.axes)

    def _permuted(
        self, axes: Sequence[str | None], permutations: Permutations, tree: Tree
    ) -> Tensor:
        return permute_grid(self.moving, (BATCH, *axes), permutations, tree.parents)


def rows_of(values: Tensor) -> Float[Tensor, "batch values"]:
    """A batch of tensors, or of single values, as vectors."""
    return (values.flatten(1) if values.ndim > 1 else values[:, None]).double()
