"""The symmetry group of a spec: sample an element, act with it, check the function."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from weightspace.errors import SymmetryError
from weightspace.graph.binding import Mixed, Piece, Weighing
from weightspace.graph.layout import ancestors, permute_grid, piece_grid
from weightspace.graph.movement import Movement, pieces_of
from weightspace.graph.neural_graph import State, check_state
from weightspace.graph.spec import GraphSpec

Function = Callable[[State], Tensor]


@dataclass(frozen=True, eq=False)
class GroupElement(Movement):
    """One change of a network's parameters that leaves its function unchanged.

    ``new[i] = q_i * old[permutation[i]]`` on every axis; an axis absent from
    ``permutations`` stays, a rescaling absent from ``factors`` is 1.

    Args:
        spec: the structure it acts on.
        permutations: ``[size]`` for each axis, ``[*parents' sizes, size]`` for an axis
            within another.
        factors: ``[neurons]`` for each rescaling.
        matrices: ``[*parents' sizes, neurons, neurons]`` for each mixing, applied last.

    Raises:
        SymmetryError: a permutation is not one, or an axis is not the spec's.
    """

    spec: GraphSpec
    permutations: Mapping[str, Tensor]
    factors: Mapping[str, Tensor] = field(default_factory=dict)
    matrices: Mapping[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, permutation in self.permutations.items():
            size = self.spec.axis(name).size
            wanted = torch.arange(size).expand_as(permutation)
            if permutation.shape[-1] != size or not torch.equal(
                permutation.sort(dim=-1).values, wanted
            ):
                raise SymmetryError(
                    f"permutation of axis {name!r}",
                    expected=f"every index below {size} once",
                    found=str(permutation.tolist()),
                )

    # -- acting --------------------------------------------------------------------------

    def act_state(self, state: State) -> dict[str, Tensor]:
        """Act on a state dict: the same function, other parameters.

        ``W -> P_target W P_source^T``, ``b -> P_target b`` (Navon et al. 2023, equation 4).

        Raises:
            StateError: the state dict does not belong to the spec.
        """
        check_state(self.spec, state)
        return self._act({name: tensor[None] for name, tensor in state.items()}, squeeze=True)

    def act_stacked(self, stacked: State) -> dict[str, Tensor]:
        """Act on a stacked state dict, with the same element on every network."""
        check_state(self.spec, stacked, batch=True)
        return self._act(stacked, squeeze=False)

    def act_tensor(self, parameter: str, tensor: Tensor) -> Tensor:
        """Act on one tensor of a state dict; the tensor itself is given back if none moves it.

        A second name of another tensor has no pieces and stays as it is.
        """
        return self._act_tensor(parameter, tensor.detach()[None])[0]

    def _act(self, stacked: State, *, squeeze: bool) -> dict[str, Tensor]:
        result: dict[str, Tensor] = {}
        for name, tensor in stacked.items():
            old = tensor.detach()
            moved = self._act_tensor(name, old)
            result[name] = moved.clone() if moved is old and name in pieces_of(self.spec) else moved
        for item in self.spec.left_out:
            if item.same_as is not None:
                result[item.parameter.name] = result[item.same_as]
        return {name: tensor[0] for name, tensor in result.items()} if squeeze else result

    def _moves(self, piece: Piece) -> bool:
        return (
            any(factor.axis in self.permutations for factor in piece.factors)
            or any(weighing.rescaling in self.factors for weighing in piece.weighings)
            or any(mixed.mixing in self.matrices for mixed in piece.mixed)
        )

    def _act_piece(self, piece: Piece, old: Tensor) -> Tensor:
        """The values of a piece after the element, with every factor as a dimension."""
        grid = self._permute(piece_grid(piece, old), [factor.axis for factor in piece.factors])
        for weighing in piece.weighings:
            if weighing.rescaling in self.factors:
                place = factor_place(self.spec, piece, weighing)
                factor = self.factors[weighing.rescaling] ** weighing.power
                shape = [1] * grid.ndim
                shape[place + 1] = -1
                grid = grid * factor.to(grid.dtype).reshape(shape)
        for mixed in piece.mixed:
            if mixed.mixing in self.matrices:
                grid = self._mix(piece, mixed, grid)
        return grid

    def _mix(self, piece: Piece, mixed: Mixed, grid: Tensor) -> Tensor:
        """Multiply along one factor, with a matrix for each element of its parents."""
        axis = next(m.axis for m in self.spec.mixings if m.name == mixed.mixing)
        axes = [factor.axis for factor in piece.factors]
        before = sum(len(span.factors) for span in piece.spans[: mixed.dimension])
        place = before + [f.axis for f in piece.spans[mixed.dimension].factors].index(axis)
        parents = [axes.index(parent) + 1 for parent in ancestors(axis, self._parents)]
        first = [*parents, place + 1]
        ends = [*range(len(parents)), -1]
        moved = grid.movedim(first, ends)
        matrix = self.matrices[mixed.mixing].to(grid.dtype)
        if mixed.inverse:
            matrix = torch.linalg.inv(matrix).transpose(-1, -2)
        size = matrix.shape[-1]
        rows = moved.reshape(math.prod(matrix.shape[:-2]), -1, size)
        mixed_rows = rows @ matrix.reshape(-1, size, size).transpose(-1, -2)
        return mixed_rows.reshape(moved.shape).movedim(ends, first)

    def _permute(self, grid: Tensor, axes: list[str | None]) -> Tensor:
        return permute_grid(grid, axes, dict(self.permutations), self._parents, offset=1)

    @cached_property
    def _parents(self) -> dict[str, str | None]:
        return {axis.name: axis.within for axis in self.spec.axes}


def factor_place(spec: GraphSpec, piece: Piece, weighing: Weighing) -> int:
    """Where the axis of a piece's rescaling stands among the piece's factors."""
    axis = next(r.axis for r in spec.rescalings if r.name == weighing.rescaling)
    before = sum(len(span.factors) for span in piece.spans[: weighing.dimension])
    own = [factor.axis for factor in piece.spans[weighing.dimension].factors]
    return before + own.index(axis)


@dataclass(frozen=True)
class SymmetryGroup:
    """The group of a spec's permutations and rescalings.

    >>> from weightspace.graph import chain_spec
    >>> group = SymmetryGroup(chain_spec([2, 4, 1]))
    >>> round(group.log_order, 3)  # log 4!
    3.178
    """

    spec: GraphSpec

    @property
    def log_order(self) -> float:
        """The natural logarithm of the number of permutations in the group."""
        return sum(
            self._copies(axis.name) * math.lgamma(axis.size + 1)
            for axis in self.spec.axes
            if axis.permutes
        )

    def sample(
        self, generator: torch.Generator, *, kinds: tuple[str, ...] = ("permutation",)
    ) -> GroupElement:
        """Draw a random element: uniform permutations, signs, and log-normal scales.

        Args:
            generator: the source of randomness.
            kinds: any of ``"permutation"``, ``"sign"``, ``"scale"`` and ``"gl"`` (invertible
                matrices on query-key and value-output pairs).
        """
        known = ("permutation", "sign", "scale", "gl")
        if not set(kinds) <= set(known):
            raise SymmetryError("kinds", expected=f"any of {known}", found=str(kinds))
        permutations = {}
        if "permutation" in kinds:
            for axis in self.spec.axes:
                if axis.permutes:
                    permutations[axis.name] = self._permutation(axis.name, generator)
        factors = {}
        for rescaling in self.spec.rescalings:
            if rescaling.kind in kinds:
                size = self.spec.axis(rescaling.axis).size
                normal = torch.randn(size, generator=generator, dtype=torch.float64)
                factors[rescaling.name] = (
                    torch.exp(0.5 * normal) if rescaling.kind == "scale" else torch.sign(normal)
                )
        matrices = {}
        if "gl" in kinds:
            matrices = {m.name: self._matrix(m.axis, generator) for m in self.spec.mixings}
        return GroupElement(self.spec, permutations, factors, matrices)

    def _matrix(self, name: str, generator: torch.Generator) -> Tensor:
        """Random rotations with stretched axes: invertible, and far from singular."""
        size = self.spec.axis(name).size
        shape = (*self._parent_sizes(name), size, size)
        normal = torch.randn(shape, generator=generator, dtype=torch.float64)
        stretch = torch.rand(shape[:-1], generator=generator, dtype=torch.float64) + 0.5
        rotation: Tensor = torch.linalg.qr(normal).Q
        return rotation * stretch[..., None, :]

    def _permutation(self, name: str, generator: torch.Generator) -> Tensor:
        size, copies = self.spec.axis(name).size, self._copies(name)
        draws = [torch.randperm(size, generator=generator) for _ in range(copies)]
        return torch.stack(draws).reshape(*self._parent_sizes(name), size)

    def _parent_sizes(self, name: str) -> list[int]:
        sizes: list[int] = []
        parent = self.spec.axis(name).within
        while parent is not None:
            sizes.insert(0, self.spec.axis(parent).size)
            parent = self.spec.axis(parent).within
        return sizes

    def _copies(self, name: str) -> int:
        return math.prod(self._parent_sizes(name))

    def identity(self) -> GroupElement:
        """The element that changes nothing."""
        return GroupElement(self.spec, {})

    def check(
        self,
        function: Function,
        state: State,
        *,
        generator: torch.Generator | None = None,
        samples: int = 3,
        kinds: tuple[str, ...] = ("permutation",),
    ) -> SymmetryReport:
        """Apply random elements, run the network, and report the change of its output.

        Args:
            function: runs the network with a state dict on fixed inputs.
            state: the network's parameters.
            generator: the source of randomness; seeded with 0 if not given.
            samples: how many elements to try.
            kinds: which symmetries, see :meth:`sample`.
        """
        generator = generator or torch.Generator().manual_seed(0)
        with torch.no_grad():
            before = function(state)
            scale = float(before.abs().max()) or 1.0
            changes = []
            for _ in range(samples):
                after = function(self.sample(generator, kinds=kinds).act_state(state))
                changes.append(float((after - before).abs().max()) / scale)
        return SymmetryReport(max(changes, default=0.0), samples, kinds)


@dataclass(frozen=True)
class SymmetryReport:
    """What a symmetry check found.

    Args:
        max_relative_change: the largest change of the output, relative to its largest value.
        samples: how many random elements were applied.
        kinds: which symmetries they had.
    """

    max_relative_change: float
    samples: int
    kinds: tuple[str, ...]

    def require(self, tolerance: float = 1e-4) -> None:
        """Raise unless the function is unchanged.

        Raises:
            SymmetryError: the largest relative change exceeds the tolerance, or is not finite.
        """
        if not self.max_relative_change <= tolerance:
            raise SymmetryError(
                "symmetry",
                expected=f"outputs unchanged within {tolerance:g}",
                found=f"a relative change of {self.max_relative_change:.3g}",
                hint="The spec does not describe this network.",
            )
