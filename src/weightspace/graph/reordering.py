"""Permutations of neurons for a whole batch of networks, an element of the group for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Int
from torch import Tensor

from weightspace.errors import StateError, SymmetryError
from weightspace.graph.binding import Piece
from weightspace.graph.layout import ancestors, permute_grid, piece_grid
from weightspace.graph.movement import Movement
from weightspace.graph.neural_graph import State, check_state
from weightspace.graph.spec import GraphSpec
from weightspace.graph.symmetry import GroupElement

BATCH = ""
"""The networks of a batch count as an axis that all others are nested in: every network has
permutations of its own, as every attention head has."""


@dataclass(frozen=True, eq=False)
class Reordering(Movement):
    """A permutation of the neurons of every network of a batch; the functions stay the same.

    ``new[n, i] = old[n, permutation[n, i]]`` on every axis, as
    :class:`~weightspace.graph.GroupElement` does for one network. Gradients flow through.

    Args:
        spec: the networks' structure.
        permutations: ``[networks, size]`` for each axis, ``[networks, *parents' sizes, size]``
            for an axis within another; an axis without one stays.

    >>> from weightspace.graph import chain_spec
    >>> spec = chain_spec([1, 3, 1], bias=False)
    >>> turned = Reordering(spec, {"0": torch.tensor([[1, 2, 0], [0, 1, 2]])})
    >>> state = {"0.weight": torch.arange(3.0).expand(2, 3)[..., None],
    ...     "1.weight": torch.ones(2, 1, 3)}
    >>> turned.act_stacked(state)["0.weight"][..., 0].tolist()
    [[1.0, 2.0, 0.0], [0.0, 1.0, 2.0]]
    """

    spec: GraphSpec
    permutations: Mapping[str, Int[Tensor, "networks *nested"]]

    # -- making --------------------------------------------------------------------------

    @classmethod
    def sample(
        cls,
        spec: GraphSpec,
        networks: int,
        *,
        generator: torch.Generator | None = None,
        device: torch.device | None = None,
    ) -> Reordering:
        """Draw uniform permutations of all axes that permute.

        Args:
            spec: the networks' structure.
            networks: how many there are.
            generator: the source of randomness; torch's own if not given.
            device: where the permutations are drawn.
        """
        found = {}
        for axis in spec.axes:
            if axis.permutes and axis.size > 1:
                shape = (networks, *nested_sizes(spec, axis.name))
                # Sorting uniform numbers permutes every row at once. Double precision, since
                # two equal numbers would favour the order they are in.
                draw = torch.rand(shape, generator=generator, dtype=torch.float64, device=device)
                found[axis.name] = draw.argsort(dim=-1)
        return cls(spec, found)

    @classmethod
    def of(cls, elements: Sequence[GroupElement]) -> Reordering:
        """Join the permutations of single networks.

        Raises:
            SymmetryError: there are none, they are of several specs, or have more than
                permutations.
        """
        if len({element.spec for element in elements}) != 1:
            raise SymmetryError(
                "elements", expected="elements of one spec", found=f"{len(elements)} elements"
            )
        if any(element.factors or element.matrices for element in elements):
            raise SymmetryError("elements", expected="permutations", found="factors or matrices")
        spec = elements[0].spec
        names = dict.fromkeys(name for element in elements for name in element.permutations)
        found = {}
        for name in names:
            same = torch.arange(spec.axis(name).size).expand(nested_sizes(spec, name))
            found[name] = torch.stack([e.permutations.get(name, same) for e in elements])
        return cls(spec, found)

    def element(self, index: int) -> GroupElement:
        """The element of one network."""
        return GroupElement(self.spec, {n: p[index].cpu() for n, p in self.permutations.items()})

    def inverse(self) -> Reordering:
        """The reordering that undoes this one."""
        found: dict[str, Tensor] = {}
        for name in sorted(self.permutations, key=lambda n: len(ancestors(n, self._parents))):
            # A parent's elements have moved: their children's inverses move back with them.
            chain = ancestors(name, self._parents)
            back = self.permutations[name].argsort(dim=-1)
            found[name] = permute_grid(back, [*chain, None], found, self._parents)
        return Reordering(self.spec, found)

    # -- acting --------------------------------------------------------------------------

    def act_stacked(self, stacked: State) -> dict[str, Tensor]:
        """Reorder a stacked state dict; tensors that nothing moves are given back as they are.

        Raises:
            StateError: the state dict does not belong to the spec, or has another number of
                networks.
        """
        check_state(self.spec, stacked, batch=True)
        result = {name: self._act_tensor(name, tensor) for name, tensor in stacked.items()}
        for item in self.spec.left_out:
            if item.same_as is not None:
                result[item.parameter.name] = result[item.same_as]
        return result

    def _moves(self, piece: Piece) -> bool:
        return any(factor.axis in self.permutations for factor in piece.factors)

    def _act_piece(self, piece: Piece, old: Tensor) -> Tensor:
        grid = piece_grid(piece, old.contiguous())
        return self._permute(grid, [factor.axis for factor in piece.factors])

    def _permute(self, grid: Tensor, axes: list[str | None]) -> Tensor:
        for name, permutation in self.permutations.items():
            if permutation.shape[0] != grid.shape[0]:
                raise StateError(
                    "stacked state",
                    expected=f"{permutation.shape[0]} networks, as the permutation of {name}",
                    found=str(grid.shape[0]),
                )
        return permute_grid(grid, [BATCH, *axes], dict(self.permutations), self._parents)

    @cached_property
    def _parents(self) -> dict[str, str | None]:
        return batch_parents(self.spec)


def batch_parents(spec: GraphSpec) -> dict[str, str | None]:
    """The axis each axis is nested in, the outermost ones in the batch."""
    return {BATCH: None, **{axis.name: axis.within or BATCH for axis in spec.axes}}


def nested_sizes(spec: GraphSpec, name: str) -> tuple[int, ...]:
    """The sizes of the axes that an axis is nested in, outermost first, and its own."""
    axis = spec.axis(name)
    return (*(nested_sizes(spec, axis.within) if axis.within else ()), axis.size)
