"""Bringing one network to another in every way that may make them alike."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from weightspace.align import align_weights
from weightspace.align.frames import Kind
from weightspace.find.freeing import freed
from weightspace.find.network import Network
from weightspace.find.signs import settle_signs
from weightspace.graph import GraphSpec
from weightspace.graph.axis import RescalingKind

CLOSE = 0.9
"""A similarity from which on other ways of alignment are not tried."""


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
    """

    one: tuple[Tensor, ...]
    other: tuple[Tensor, ...]
    moved: bool = False
    rescaled: tuple[Kind, ...] = ()
    assumed: bool = False
    shared: float = 1.0
    as_it_is: float = 0.0

    @property
    def similarity(self) -> float:
        """The cosine of the angle between the networks' matrices, as vectors."""
        return self._products[0]

    @property
    def distance(self) -> float:
        """``|A - B| / sqrt(|A|^2 + |B|^2)``: 0 for copies, 1 for vectors at right angles."""
        return self._products[1]

    @property
    def _products(self) -> tuple[float, float]:
        inner = squares = gap = 0.0
        norms = [0.0, 0.0]
        for one, other in zip(self.one, self.other, strict=True):
            inner += float((one * other).double().sum())
            gap += float((one - other).double().square().sum())
            norms[0] += float(one.double().square().sum())
            norms[1] += float(other.double().square().sum())
        squares = norms[0] + norms[1]
        product = math.sqrt(norms[0] * norms[1])
        return inner / product if product else 0.0, math.sqrt(gap / squares) if squares else 0.0


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
    ways = _ways(one, other)
    best = first = next(ways)
    if first.similarity < enough:
        for found in ways:
            if found.similarity > best.similarity + 1e-6:
                best = found
            if best.similarity >= enough:
                break
    return replace(best, as_it_is=first.similarity)


def _ways(one: Network, other: Network) -> Iterator[Comparison]:
    moving = other.named_as(one)
    yield matrices_of(one.state, moving)
    if one.spec is None or not any(axis.permutes for axis in one.spec.axes):
        return
    known: list[tuple[GraphSpec, tuple[Kind, ...], bool]] = [(one.spec, (), False)]
    kinds = {r.kind for r in one.spec.rescalings}
    if kinds:
        known.append((one.spec, tuple(sorted(kinds)), False))
    rescaling: RescalingKind
    for rescaling in ("scale", "sign"):
        spec = freed(one.spec, (rescaling,))
        if spec != one.spec:
            known.append((spec, (*sorted(kinds - {rescaling}), rescaling), True))
    for spec, rescaled, assumed in known:
        aligned = align_weights(spec, one.state, moving, kinds=rescaled).aligned
        if "sign" in rescaled:
            aligned = settle_signs(spec, one.state, aligned)
        found = matrices_of(one.state, aligned)
        yield replace(found, moved=True, rescaled=rescaled, assumed=assumed)


def matrices_of(
    one: Mapping[str, Tensor], other: Mapping[str, Tensor], names: Sequence[str] | None = None
) -> Comparison:
    """Put the matrices of two states side by side; vectors are small, or much alike anyway."""
    chosen = [n for n in (one if names is None else names) if _is_matrix(one[n])]
    return Comparison(tuple(one[n] for n in chosen), tuple(other[n] for n in chosen))


def _is_matrix(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and tensor.ndim > 1 and tensor.numel() > 0
