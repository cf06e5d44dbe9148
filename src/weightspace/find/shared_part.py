"""The tensors that two networks of different architectures have in common."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace

import torch

from weightspace.find.comparing import CERTAIN, SLIGHT, Comparison, matrices_of, scrambled_state
from weightspace.find.network import Network
from weightspace.graph import Term, match_pairs
from weightspace.graph.layout import piece_grid
from weightspace.graph.movement import pieces_of

Pairs = list[tuple[str, str]]


def compare_shared(one: Network, other: Network) -> Comparison | None:
    """Compare the layers that two architectures share, such as all but a new head.

    Layers correspond by name and shape, or else by shape from the first layer on or from the last
    back, whatever holds more values. Neurons are reordered as the shared tensors say; their
    signs and scales are not changed, as neurons at the border touch what is not shared.

    Returns:
        The comparison, or None if no matrix is shared.
    """
    pairs = max(_correspondences(one, other), key=lambda pairs: _values(one, pairs))
    names = [own for own, _ in pairs]
    moving = {own: other.state[theirs] for own, theirs in pairs}
    part = _values(one, pairs) / max(_all_values(one), _all_values(other), 1)
    found = replace(matrices_of(one.state, moving, names), shared=part)
    if not found.one:
        return None
    found = replace(found, as_it_is=found.similarity)
    if found.similarity >= CERTAIN or one.spec is None or other.spec is None:
        return found
    scrambled = scrambled_state(one.spec, moving)
    best, by_chance = found, matrices_of(one.state, scrambled, names)
    moved = _reordered(one, moving, part)
    if moved is not None and moved.similarity > found.similarity + SLIGHT:
        best, by_chance = moved, _reordered(one, scrambled, part) or by_chance
    return replace(best, as_it_is=found.similarity, by_chance=max(by_chance.similarity, 0.0))


def _correspondences(one: Network, other: Network) -> Iterable[Pairs]:
    theirs = set(other.names())
    yield [
        (name, name)
        for name in one.names()
        if name in theirs and one.state[name].shape == other.state[name].shape
    ]
    if one.spec is not None and other.spec is not None:
        for way in (1, -1):
            both = zip(one.names()[::way], other.names()[::way], strict=False)
            yield list(
                itertools.takewhile(
                    lambda p: one.state[p[0]].shape == other.state[p[1]].shape, both
                )
            )


def _reordered(one: Network, moving: dict[str, torch.Tensor], part: float) -> Comparison | None:
    """Bring the shared tensors to the first network's order."""
    assert one.spec is not None
    terms = []
    for name, pieces in pieces_of(one.spec).items():
        if name in moving and not one.spec.parameter(name).buffer:
            for piece in pieces:
                grids = [piece_grid(piece, t[name][None].double()) for t in (one.state, moving)]
                terms.append(Term(grids[0], grids[1], tuple(f.axis for f in piece.factors)))
    if not terms:
        return None
    element = match_pairs(one.spec, terms).reordering.element(0)
    moved = {name: element.act_tensor(name, tensor) for name, tensor in moving.items()}
    return replace(matrices_of(one.state, moved, list(moving)), moved=True, shared=part)


def _values(network: Network, pairs: Pairs) -> int:
    return sum(network.state[own].numel() for own, _ in pairs)


def _all_values(network: Network) -> int:
    return sum(tensor.numel() for tensor in network.state.values())
