"""What the neurons of an axis hear, and which of them hear the same."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.graph import GraphSpec, Piece, State
from weightspace.graph.layout import parent_places, piece_grid
from weightspace.graph.reordering import nested_sizes

ROUNDING = 1e-6
"""How far entries of equal rows of norm one may lie apart."""


@dataclass(frozen=True)
class Duplicates:
    """Neurons of one axis that compute the same, up to a factor.

    Args:
        axis: the axis.
        neurons: at least two, each ``(*parents' indices, index)``, in order.
        factors: each one's value is its factor times the first one's.
    """

    axis: str
    neurons: tuple[tuple[int, ...], ...]
    factors: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Hearing:
    """What the neurons of an axis hear.

    Args:
        axis: its name.
        sizes: of the axes that it is nested in, and its own.
        kinds: of the factors that a neuron may have.
        weighed: ``[parents, size, values]``, what is multiplied by a neuron's factor.
        fixed: ``[parents, size, values]``, all else that it hears.
    """

    axis: str
    sizes: tuple[int, ...]
    kinds: frozenset[str]
    weighed: Tensor
    fixed: Tensor

    @classmethod
    def of(cls, spec: GraphSpec, state: State, axis: str) -> Hearing:
        """Collect them from all pieces that end at the axis."""
        sizes = nested_sizes(spec, axis)
        own = {r.name: r.kind for r in spec.rescalings if r.axis == axis}
        # several factors of one kind along one axis: none of them is the neuron's own
        single = len(set(own.values())) == len(own)
        weighed, fixed = [torch.zeros(*sizes, 0)], [torch.zeros(*sizes, 0)]
        for piece in spec.pieces:
            rows = _piece_rows(spec, piece, state[piece.parameter], axis)
            if rows is not None:
                acts = single and any(w.rescaling in own for w in piece.weighings)
                (weighed if acts else fixed).append(rows)
        kinds = frozenset(own.values()) if single else frozenset()
        joined = [torch.cat(part, -1) for part in (weighed, fixed)]
        flat = [t.reshape(math.prod(sizes[:-1]), sizes[-1], t.shape[-1]) for t in joined]
        return cls(axis, sizes, kinds, flat[0], flat[1])

    def groups(self, parent: int, alive: Tensor) -> Iterator[Duplicates]:
        """The equal neurons of one parent."""
        weighed, fixed = self.weighed[parent], self.fixed[parent]
        factors = self._factors(weighed)
        free = bool(self.kinds)
        hears = (weighed != 0).any(1) if free else (weighed != 0).any(1) | (fixed != 0).any(1)
        same: dict[bytes, list[int]] = {}
        for index in torch.nonzero(alive & hears).flatten().tolist():
            scaled = "scale" in self.kinds
            exact = (
                fixed[index]
                if scaled
                else torch.cat([fixed[index], weighed[index] * factors[index].to(weighed)])
            )
            same.setdefault(_key(exact), []).append(index)
        for members in same.values():
            rows = weighed[members].double() / factors[members, None]
            for close in _close(rows) if "scale" in self.kinds else [range(len(members))]:
                if len(close) > 1:
                    yield self._duplicates(parent, [members[i] for i in close], factors)

    def _factors(self, weighed: Tensor) -> Tensor:
        factors = torch.ones(len(weighed), dtype=torch.float64)
        if "scale" in self.kinds:
            factors = weighed.double().norm(dim=1)
        if "sign" in self.kinds:
            first = weighed.gather(1, (weighed != 0).int().argmax(1, keepdim=True))[:, 0]
            factors = factors * first.sign().double()
        return factors

    def _duplicates(self, parent: int, members: list[int], factors: Tensor) -> Duplicates:
        above = np.unravel_index(parent, self.sizes[:-1]) if len(self.sizes) > 1 else ()
        neurons = tuple((*map(int, above), index) for index in members)
        own = (factors[members] / factors[members[0]]).tolist()
        return Duplicates(self.axis, neurons, tuple(own))


def _piece_rows(spec: GraphSpec, piece: Piece, tensor: Tensor, axis: str) -> Tensor | None:
    """A piece's values ``[*parents' sizes, size, values]``, if it ends at an axis."""
    heard = [i for i, f in enumerate(piece.factors) if f.axis == axis and f.side != "source"]
    if not heard:
        return None
    grid = piece_grid(piece, tensor.detach()[None])[0]
    axes = [factor.axis for factor in piece.factors]
    parents = {a.name: a.within for a in spec.axes}
    places = [*parent_places(axes, heard[0], parents), heard[0]]
    return grid.movedim(places, list(range(len(places)))).reshape(*nested_sizes(spec, axis), -1)


def _close(rows: Float[Tensor, "n values"]) -> Iterator[list[int]]:
    """Groups of rows of norm one that are equal up to rounding."""
    generator = torch.Generator().manual_seed(0)
    # equal rows have equal shadows: only neighbours on a line are compared
    shadows = rows @ torch.randn(rows.shape[1], generator=generator, dtype=rows.dtype)
    places = shadows.tolist()
    groups: list[list[int]] = []
    for index in shadows.argsort().tolist():
        reach = places[index] - 1e-4
        near = takewhile(lambda g, low=reach: places[g[0]] > low, reversed(groups))  # type: ignore[misc]
        equal = (g for g in near if bool((rows[index] - rows[g[0]]).abs().max() <= ROUNDING))
        group = next(equal, None)
        if group is None:
            groups.append([index])
        else:
            group.append(index)
    yield from map(sorted, groups)


def _key(values: Tensor) -> bytes:
    """Equal for equal values; of the two zeros it makes one."""
    return bytes((values + 0.0).contiguous().view(torch.uint8).numpy())
