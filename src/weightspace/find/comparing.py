"""Bringing one network to another in every way that may make them alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from weightspace.align import align_weights
from weightspace.align.frames import Kind
from weightspace.find.freeing import freed
from weightspace.find.network import Network
from weightspace.find.signs import settle_signs
from weightspace.graph import GraphSpec
from weightspace.graph.axis import RescalingKind
from weightspace.graph.layout import piece_grid

CLOSE = 0.9
"""A similarity from which on other ways of alignment are not tried."""
EQUAL = 0.99
"""The same for networks that had to be reordered, and may be rescaled, too."""
SLIGHT = 0.05
"""A gain of similarity that is not worth a movement: chance alone can give it."""
RELATED = 0.4
"""The part of the similarity beyond chance, after alignment, from which on networks are kin.

Measured (docs/find.md): networks trained from different seeds on the same data reach at most
0.2 (0.3 where there are four inputs and two outputs), fine-tunes that were reordered and
rescaled 0.5 and more."""
ORDERED = 0.2
"""The same for networks whose neurons are in the same order as they are: there, independent
ones stay near 0."""
CERTAIN = 0.95
"""A similarity that is no chance, whatever the networks."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two networks beside each other, the second brought to the first.

    Args:
        one: the first network's matrices.
        other: the second's, in the first one's order.
        moved: whether neurons had to be reordered or rescaled for it.
        rescaled: the rescalings that were undone, too.
        assumed: whether these are allowed by activations that the files do not tell.
        shared: the part of the larger network's values that was compared, from 0 to 1.
        as_it_is: the similarity without any movement.
        vector_gap: the distance of what is no matrix, such as biases; with no part in verdicts
            but that on copies.
        by_chance: the similarity that is left when one network is scrambled and brought to the
            other in the same way; 0 if that was not needed.
    """

    one: tuple[Tensor, ...]
    other: tuple[Tensor, ...]
    moved: bool = False
    rescaled: tuple[Kind, ...] = ()
    assumed: bool = False
    shared: float = 1.0
    as_it_is: float = 0.0
    vector_gap: float = 0.0
    by_chance: float = 0.0

    @property
    def beyond_chance(self) -> float:
        """The part of what could be alike that is so beyond chance, at the most 1."""
        return (self.similarity - self.by_chance) / max(1 - self.by_chance, 1e-9)

    @property
    def similarity(self) -> float:
        """The cosine of the angle between matrices, as vectors, averaged over their values.

        Not of all as one vector: there, a small matrix of large weights would count for all.
        """
        return self._mean(_cosine)

    @property
    def distance(self) -> float:
        """``|A - B| / sqrt(|A|^2 + |B|^2)`` of matrices, in the mean square over their values.

        It is 0 for copies and 1 for matrices at right angles.
        """
        return math.sqrt(self._mean(_squared_gap))

    def _mean(self, measure: Callable[[Tensor, Tensor], float]) -> float:
        values = sum(one.numel() for one in self.one)
        pairs = zip(self.one, self.other, strict=True)
        total = sum(one.numel() * measure(one.double(), other.double()) for one, other in pairs)
        return total / values if values else 0.0


def _cosine(one: Tensor, other: Tensor) -> float:
    product = float(one.norm() * other.norm())
    return float((one * other).sum()) / product if product else float(torch.equal(one, other))


def _squared_gap(one: Tensor, other: Tensor) -> float:
    squares = float(one.square().sum() + other.square().sum())
    return float((one - other).square().sum()) / squares if squares else 0.0


def compare(one: Network, other: Network, *, exactly: bool = False) -> Comparison:
    """Bring a network to another of its structure, as close as can be found.

    Tried are, in this order: as it is; reordered (:func:`weightspace.align.align_weights`); with
    the rescalings that the architecture is known to have; with scales, then signs, that it may
    have for all that its file tells. The closest counts.

    Args:
        one: the network that stays.
        other: the one that is brought to it.
        exactly: go on until they are equal, however close they are already.
    """
    enough = 1 - 1e-9 if exactly else CLOSE
    moving = other.named_as(one)
    best = first = matrices_of(one.state, moving)
    way = None
    for tried in _ways(one.spec) if first.similarity < enough and one.spec is not None else ():
        found = _aligned(tried, one.state, moving)
        if found.similarity > best.similarity + 1e-6:
            best, way = found, tried
        if best.similarity >= max(enough, EQUAL):
            break
    if first.similarity >= best.similarity - SLIGHT and best.similarity < enough:
        best, way = first, None  # What the order of neurons has in common is no chance.
    least = ORDERED if way is None else RELATED  # With less they are strangers in any case.
    if least <= best.similarity < CERTAIN and one.spec is not None:
        scrambled = scrambled_state(one.spec, moving)
        by_chance = (
            matrices_of(one.state, scrambled)
            if way is None
            else _aligned(way, one.state, scrambled)
        )
        best = replace(best, by_chance=max(by_chance.similarity, 0.0))
    return replace(best, as_it_is=first.similarity)


class Way(NamedTuple):
    """A way of alignment.

    Args:
        spec: the structure with the rescalings that are allowed.
        rescaled: those that are undone.
        assumed: whether some are not known to be allowed.
    """

    spec: GraphSpec
    rescaled: tuple[Kind, ...]
    assumed: bool


def _ways(spec: GraphSpec) -> Iterator[Way]:
    """The ways to try, in order; none if no neurons can be reordered."""
    if not any(axis.permutes for axis in spec.axes):
        return
    yield Way(spec, (), False)
    kinds = {rescaling.kind for rescaling in spec.rescalings}
    if kinds:
        yield Way(spec, tuple(sorted(kinds)), False)
    rescaling: RescalingKind
    for rescaling in ("scale", "sign"):
        free = freed(spec, (rescaling,))
        if free != spec:
            yield Way(free, (*sorted(kinds - {rescaling}), rescaling), True)


def _aligned(way: Way, fixed: Mapping[str, Tensor], moving: Mapping[str, Tensor]) -> Comparison:
    aligned = align_weights(way.spec, fixed, moving, kinds=way.rescaled).aligned
    if "sign" in way.rescaled:
        aligned = settle_signs(way.spec, fixed, aligned)
    found = matrices_of(fixed, aligned)
    return replace(found, moved=True, rescaled=way.rescaled, assumed=way.assumed)


def scrambled_state(spec: GraphSpec, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Reorder the neurons of each tensor by itself, so that no order fits them all any more.

    What remains alike of two networks when one is scrambled and aligned again is alike by
    chance: matrices with few columns, or with much the same rows, always can be made alike.
    """
    generator = torch.Generator().manual_seed(0)
    free = {axis.name for axis in spec.axes if axis.permutes}
    result = {name: tensor.clone() for name, tensor in state.items()}
    for piece in spec.pieces:
        if piece.parameter not in result:
            continue
        grid = piece_grid(piece, result[piece.parameter][None])
        mixed = grid
        for place, factor in enumerate(piece.factors):
            if factor.axis in free:
                order = torch.randperm(factor.size, generator=generator)
                mixed = mixed.index_select(place + 1, order)
        grid.copy_(mixed)
    return result


def matrices_of(
    one: Mapping[str, Tensor], other: Mapping[str, Tensor], names: Sequence[str] | None = None
) -> Comparison:
    """Put the matrices of two states side by side; vectors are small, or much alike anyway."""
    given = list(one if names is None else names)
    chosen = [name for name in given if _is_matrix(one[name])]
    rest = [n for n in given if n not in set(chosen) and one[n].is_floating_point()]
    vectors = [
        torch.cat([torch.zeros(0), *(state[name].flatten() for name in rest)])
        for state in (one, other)
    ]
    gap = math.sqrt(_squared_gap(vectors[0].double(), vectors[1].double()))
    matrices = [tuple(state[name] for name in chosen) for state in (one, other)]
    return Comparison(matrices[0], matrices[1], vector_gap=gap)


def _is_matrix(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and tensor.ndim > 1 and tensor.numel() > 0
