"""Coordinate ascent over the permutations of axes, each step a linear assignment.

What :func:`weightspace.graph.matching.match_weights` runs. A problem is a list of terms, pairs
of tensors whose dimensions are axes. The axes within another are a problem of their own for
each pair of that one's elements, so the same code solves both.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from weightspace.graph.matching_terms import Permutations, Term, Tree, rows_of

TOLERANCE = 1e-10
"""Gains below this part of the networks' norms are rounding."""


class Problem:
    """Terms and the axes to be permuted in them, with the permutations found so far.

    Args:
        terms: of one batch size.
        tree: the axes.
        batch: how many networks, or parts of networks, are permuted.
        seed: of the order of visits. All networks of a batch share the order, and inner problems
            have the same seed: what is found for one does not depend on the others.
    """

    def __init__(self, terms: Sequence[Term], tree: Tree, batch: int, seed: int) -> None:
        self.terms, self.tree, self.batch, self.seed = list(terms), tree, batch, seed
        self.generator = torch.Generator().manual_seed(seed)
        self.permutations = tree.identity(self.batch)
        self.known: set[str] = set()

    def solve(self, *, outward: bool = True) -> Float[Tensor, " batch"]:
        """Visit every axis, then repeat until nothing changes.

        Args:
            outward: whether the axes with most to go by come first; in random order otherwise.

        Returns:
            The sum of the terms' products.
        """
        while len(self.known) < len(self.tree.roots):
            axis = self._next(outward)
            self.permutations.update(self._best(axis))
            self.known.add(axis)
        if any(len(self._roots_of(term)) > 1 for term in self.terms):
            self._repeat()
        return self.value(self.permutations)

    def value(self, permutations: Permutations, axis: str | None = None) -> Float[Tensor, " batch"]:
        """The sum of the products of all terms, or of those that an axis is in."""
        total = torch.zeros(self.batch, dtype=torch.float64)
        for term in self.terms:
            if axis is None or axis in term.axes:
                total = total + term.product(permutations, self.tree)
        return total

    def _next(self, outward: bool) -> str:
        """The axis to be visited first of those that have not been."""
        waiting = [axis for axis in self.tree.roots if axis not in self.known]
        waiting = [waiting[i] for i in torch.randperm(len(waiting), generator=self.generator)]
        facts = [
            sum(t.moving[0].numel() for t, _ in self._places(axis)) / self.tree.sizes[axis]
            for axis in waiting
        ]
        if not outward:
            facts = [float(count > 0) for count in facts]
        return waiting[facts.index(max(facts))]

    def _repeat(self) -> None:
        """Visit the axes in random order, for the networks that still change."""
        active = torch.arange(self.batch)
        while len(active):
            everyone = len(active) == self.batch
            terms = self.terms if everyone else [term.rows(active) for term in self.terms]
            part = Problem(terms, self.tree, len(active), self.seed)
            part.known, part.generator = self.known, self.generator
            part.permutations = {n: p[active] for n, p in self.permutations.items()}
            changed = part._sweep()
            for name, found in part.permutations.items():
                self.permutations[name][active] = found
            active = active[changed]

    def _sweep(self) -> Tensor:
        """Visit every axis once, and say which networks have changed."""
        changed = torch.zeros(self.batch, dtype=torch.bool)
        smallest = TOLERANCE * self._scale()
        for i in torch.randperm(len(self.tree.roots), generator=self.generator):
            axis, before = self.tree.roots[i], self.permutations
            after = {**before, **self._best(axis)}
            better = self.value(after, axis) > self.value(before, axis) + smallest
            self.permutations = where(better, after, before)
            changed |= better
        return changed

    def _scale(self) -> Float[Tensor, " batch"]:
        total = torch.zeros(self.batch, dtype=torch.float64)
        for term in self.terms:
            total = total + rows_of(term.fixed).norm(dim=1) * rows_of(term.moving).norm(dim=1)
        return total

    def _roots_of(self, term: Term) -> list[int]:
        """Where axes stand that are nested in none."""
        return [i for i, axis in enumerate(term.axes) if axis in self.tree.roots]

    def _places(self, axis: str) -> list[tuple[Term, int]]:
        """Where an axis stands in terms whose other axes are known."""
        return [
            (term, place)
            for term in self.terms
            for place in self._roots_of(term)
            if term.axes[place] == axis
            and all(term.axes[i] in self.known for i in self._roots_of(term) if i != place)
        ]

    def _best(self, axis: str) -> Permutations:
        """The best permutation of an axis and of what is in it, all others kept."""
        inner = self.tree.inside(axis)
        if not inner.sizes:
            return {axis: _assignments(self._profits(axis))}
        freed = [t.freed(i, self.permutations, self.tree) for t, i in self._places(axis)]
        if not self.tree.permutes[axis]:
            return self._each(axis, freed, inner)
        return self._pairs(axis, freed, inner)

    def _profits(self, axis: str) -> Float[Tensor, "batch n n"]:
        """The inner products of all pairs of an axis's elements, a term at a time."""
        size = self.tree.sizes[axis]
        total = torch.zeros(self.batch, size, size, dtype=torch.float64)
        for term, place in self._places(axis):
            freed = term.freed(place, self.permutations, self.tree)
            fixed, moving = (
                x.reshape(len(x), size, -1).double() for x in (freed.fixed, freed.moving)
            )
            # In place: of wide layers this matrix is larger than all their weights.
            total.baddbmm_(fixed.expand(self.batch, -1, -1), moving.transpose(1, 2))
        return total

    def _each(self, axis: str, freed: list[Term], inner: Tree) -> Permutations:
        """Solve what is in an axis that does not permute, element by element."""
        size = self.tree.sizes[axis]
        parts = [
            Term(
                term.fixed.expand(self.batch, *term.fixed.shape[1:]).flatten(0, 1),
                term.moving.flatten(0, 1),
                term.axes,
            )
            for term in freed
        ]
        problem = Problem(parts, inner, self.batch * size, self.seed)
        problem.solve()
        return {
            n: p.reshape(self.batch, size, *p.shape[1:]) for n, p in problem.permutations.items()
        }

    def _pairs(self, axis: str, freed: list[Term], inner: Tree) -> Permutations:
        """Solve what is in every pair of an axis's elements, then the axis itself."""
        size = self.tree.sizes[axis]
        moving = [term.moving.flatten(0, 1) for term in freed]
        profits, found = [], []
        for i in range(size):  # one fixed element with all others at once
            parts = [
                Term(_repeated(term.fixed[:, i], size), rows, term.axes)
                for term, rows in zip(freed, moving, strict=True)
            ]
            problem = Problem(parts, inner, self.batch * size, self.seed)
            profits.append(problem.solve().reshape(-1, size))
            found.append(problem.permutations)
        chosen = _assignments(torch.stack(profits, dim=1))
        best = {axis: chosen}
        networks = torch.arange(self.batch)[:, None]
        for name in found[0]:
            of_pairs = [f[name].reshape(self.batch, size, *f[name].shape[1:]) for f in found]
            pairs = torch.stack(of_pairs, dim=1)
            best[name] = pairs[networks, torch.arange(size), chosen]
        return best


def where(better: Tensor, one: Permutations, other: Permutations) -> Permutations:
    """The permutations of one solution where it is better, those of the other elsewhere."""
    return {
        name: torch.where(better.reshape(-1, *[1] * (old.ndim - 1)), one[name], old)
        for name, old in other.items()
    }


def _repeated(fixed: Tensor, size: int) -> Tensor:
    """One element of each fixed network for every element of the moving ones."""
    return fixed if len(fixed) == 1 else fixed.repeat_interleave(size, dim=0)


def _assignments(profits: Float[Tensor, "batch n n"]) -> Int[Tensor, "batch n"]:
    """The permutation of each matrix with the largest sum; the matrices are used up."""
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 (slow to import)

    found = np.zeros(profits.shape[:2], dtype=np.int64)
    for row, matrix in enumerate(profits.neg_().numpy()):  # scipy copies what it is to maximise
        found[row] = linear_sum_assignment(matrix)[1]
    return torch.from_numpy(found)
