"""Weight matching: the reordering of a network's neurons that brings it closest to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.errors import ModelError, StateError
from weightspace.graph.assignment import Problem, where
from weightspace.graph.layout import piece_grid
from weightspace.graph.matching_terms import Term, Tree
from weightspace.graph.movement import pieces_of
from weightspace.graph.neural_graph import State, check_state
from weightspace.graph.reordering import Reordering
from weightspace.graph.spec import GraphSpec
from weightspace.graph.symmetry import GroupElement


@dataclass(frozen=True, eq=False)
class Matching:
    """How one network was brought to another.

    Args:
        element: reorders the moving network's neurons.
        similarity: the inner product of the two networks' parameters after it.
        before: the same without it.
    """

    element: GroupElement
    similarity: float
    before: float

    @property
    def gain(self) -> float:
        """What the reordering added to the inner product: half of the squared distance lost."""
        return self.similarity - self.before


@dataclass(frozen=True, eq=False)
class Matchings:
    """How the networks of a batch were brought to one other.

    Args:
        reordering: of each network.
        similarity: as in :class:`Matching`.
        before: as in :class:`Matching`.
    """

    reordering: Reordering
    similarity: Float[Tensor, " networks"]
    before: Float[Tensor, " networks"]

    @property
    def gain(self) -> Float[Tensor, " networks"]:
        """What the reordering added to the inner products."""
        return self.similarity - self.before


def match_weights(
    spec: GraphSpec,
    fixed: State,
    moving: State,
    *,
    restarts: int = 1,
    generator: torch.Generator | None = None,
) -> Matching:
    """Find the reordering of a network that maximises its inner product with another.

    Ainsworth et al. 2023 ("Git Re-Basin"), section 3.2, weight matching: of all permutations
    ``g`` of the spec's group, one with a large ``<fixed, g moving>``, and so a small distance.
    Axes are visited one at a time, all others kept:

        profit[i, j] = sum over tensors that touch the axis of <fixed[i], moving[j]>

    in, out and on the neurons themselves, tied places summed; the best permutation of the axis
    is a linear assignment. For an axis that others are nested in (heads, groups), the profit of
    a pair is what the best assignment inside it gives. Visits are repeated in random order until
    nothing changes. The published algorithm starts from the identity; here an axis is first
    visited when its neighbours have been, those with most to go by first, and counts only what
    is fixed already: this finds a reordering that was applied to a copy.

    Running statistics are moved, but do not count. Signs are not changed: where activations are
    odd, bring both networks to :func:`~weightspace.graph.canonical_signs` first.

    Args:
        spec: the structure of both networks.
        fixed: the state dict of the network that stays.
        moving: the state dict of the one that is brought to it.
        restarts: how many times to begin; the first as said above, further ones with the
            axes in random order. The best result counts.
        generator: the source of randomness; seeded with 0 if not given.

    Raises:
        StateError: a state dict does not belong to the spec, or has values that are not finite.

    >>> from weightspace.graph import chain_spec
    >>> spec = chain_spec([1, 3, 1], bias=False)
    >>> fixed = {"0.weight": torch.tensor([[1.0], [2], [3]]), "1.weight": torch.zeros(1, 3)}
    >>> moving = {"0.weight": torch.tensor([[3.0], [1], [2]]), "1.weight": torch.ones(1, 3)}
    >>> match_weights(spec, fixed, moving).element.act_state(moving)["0.weight"].flatten()
    tensor([1., 2., 3.])
    """
    stacked = {name: tensor[None] for name, tensor in moving.items()}
    found = match_stacked(spec, fixed, stacked, restarts=restarts, generator=generator)
    return Matching(found.reordering.element(0), float(found.similarity[0]), float(found.before[0]))


def match_stacked(
    spec: GraphSpec,
    fixed: State,
    stacked: State,
    *,
    restarts: int = 1,
    generator: torch.Generator | None = None,
) -> Matchings:
    """Bring every network of a stacked state dict to one, see :func:`match_weights`.

    The profits of all networks are computed together, but a network's result does not depend
    on the others.
    """
    check_state(spec, fixed)
    check_state(spec, stacked, batch=True)
    pairs = _pairs(spec, {name: tensor[None] for name, tensor in fixed.items()}, stacked)
    return match_pairs(spec, pairs, restarts=restarts, generator=generator)


def match_pairs(
    spec: GraphSpec,
    pairs: Sequence[Term],
    *,
    restarts: int = 1,
    generator: torch.Generator | None = None,
) -> Matchings:
    """Find the reorderings that maximise the sum of inner products of pairs of tensors.

    What :func:`match_weights` does with parameters, for anything whose dimensions are axes of
    the spec, such as values that flow through two networks.

    Args:
        spec: the structure of all networks.
        pairs: tensors ``[1, *sizes]`` of the network that stays and ``[networks, *sizes]`` of
            the others, with the axis of each dimension.
        restarts: as in :func:`match_weights`.
        generator: as in :func:`match_weights`.

    Raises:
        ModelError: there is nothing to match by, or the number of restarts is not positive.
    """
    if restarts < 1:
        raise ModelError("restarts", expected="at least 1", found=str(restarts))
    if not pairs:
        raise ModelError("networks", expected="values to match by", found="none")
    generator = generator or torch.Generator().manual_seed(0)
    tree = Tree.of(spec)
    terms = [Term(pair.fixed, pair.moving, tree.named(pair.axes)) for pair in pairs]
    networks = len(terms[0].moving)
    seeds = torch.randint(2**31, (restarts,), generator=generator).tolist()
    problem = Problem(terms, tree, networks, seeds[0])
    before, best = problem.value({}), problem.solve()
    chosen = problem.permutations
    for seed in seeds[1:]:
        problem = Problem(terms, tree, networks, seed)
        value = problem.solve(outward=False)
        chosen = where(value > best, problem.permutations, chosen)
        best = torch.maximum(value, best)
    return Matchings(Reordering(spec, chosen), best, before)


def _pairs(spec: GraphSpec, fixed: State, stacked: State) -> list[Term]:
    """Both networks' values of every trained piece, a dimension for each axis."""
    pairs = []
    for name, pieces in pieces_of(spec).items():
        if spec.parameter(name).buffer:
            continue
        # In their own type: copies of all tensors would be most of the memory.
        tensors = [state[name].detach().cpu().contiguous() for state in (fixed, stacked)]
        for what, tensor in zip(("fixed", "moving"), tensors, strict=True):
            if not bool(torch.isfinite(tensor).all()):
                raise StateError(
                    f"{what} network, tensor {name!r}",
                    expected="finite values",
                    found="NaN or infinity",
                )
        for piece in pieces:
            grids = [piece_grid(piece, tensor) for tensor in tensors]
            pairs.append(Term(grids[0], grids[1], tuple(f.axis for f in piece.factors)))
    return pairs
