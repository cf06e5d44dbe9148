"""The side of every part of a region of a tensor: source, target, shared, or feature."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weightspace.graph.binding import Side
from weightspace.importers.atoms import Atom, leaves
from weightspace.importers.marking import core
from weightspace.importers.regions import Region
from weightspace.importers.sketch import Holding
from weightspace.importers.value import Value


def holding_of(tensor: str, region: Region, side: Callable[[Atom, int], Side]) -> Holding:
    """Mark a region's parts: neurons keep their side, places become features.

    What can be reordered must stand on a neuron's side, or the picture would lose it; what
    stands there twice is told apart by fixing it.
    """
    marks: list[tuple[Side, ...]] = []
    seen: set[tuple[Side, Atom]] = set()
    for dim, stretch in enumerate(region):
        row: list[Side] = []
        for part in stretch.parts:
            leaf = part.leaf
            if leaf is None:
                row.append("feature")
                continue
            own: Side = side(leaf, dim)
            if not leaf.neuron and leaf.pin:
                own = "feature"
            elif own == "feature" and leaf.size > 1 and not leaf.pin:
                leaf.neuron = True
                own = "target"
            if own != "feature" and (own, leaf) in seen:
                leaf.pin = leaf.pin or "it meets itself in one tensor"
                own = "feature"
            seen.add((own, leaf))
            row.append(own)
        marks.append(tuple(row))
    return _without_units(Holding(tensor, region, tuple(marks)))


def _without_units(holding: Holding) -> Holding:
    """Single elements are features, unless they are all the neurons that one end has."""
    ends = {
        "target": set(core(holding.on("target", "shared"))),
        "source": set(core(holding.on("source", "shared"))),
    }
    ends["shared"] = ends["target"] & ends["source"]
    marks: tuple[tuple[Side, ...], ...] = tuple(
        tuple(
            side if side == "feature" or part.leaf in ends[side] else "feature"
            for part, side in zip(stretch.parts, row, strict=True)
        )
        for stretch, row in zip(holding.region, holding.sides, strict=True)
    )
    return Holding(holding.tensor, holding.region, marks)


def all_targets(leaf: Atom, dim: int) -> Side:
    """Every part is the target's: features of a place."""
    del leaf, dim
    return "target"


def all_shared(leaf: Atom, dim: int) -> Side:
    """Every part is of both ends: a diagonal block."""
    del leaf, dim
    return "shared"


def row_or_column(leaf: Atom, dim: int) -> Side:
    """Rows are targets, columns sources: a matrix of neurons with themselves."""
    del leaf
    return "target" if dim == 0 else "source"


def on_target(holding: Holding) -> Holding:
    """The same region with what both ends share given to the target."""
    sides: tuple[tuple[Side, ...], ...] = tuple(
        tuple("target" if side == "shared" else side for side in row) for row in holding.sides
    )
    return Holding(holding.tensor, holding.region, sides)


def on_features(holding: Holding) -> Holding:
    """The same region with every part a feature."""
    feature: Side = "feature"
    sides = tuple(tuple(feature for _ in row) for row in holding.sides)
    return Holding(holding.tensor, holding.region, sides)


def on_side(weight: Value, sides: Sequence[str], side: str) -> set[Atom]:
    """The leaves of a weight's dimensions on one side."""
    dims = [dim for dim, own in zip(weight.dims, sides, strict=True) if own == side]
    return {leaf for dim in dims for leaf in leaves(dim)}


def side_of(leaf: Atom, origin: tuple[str, int], weight: Value, sides: Sequence[str]) -> Side:
    """The side of a leaf in one dimension of a tensor that a weight is made of."""
    known = len(weight.origins) == weight.rank
    for own in (True, False):
        for i, dim in enumerate(weight.dims):
            if own and not (known and origin in weight.origins[i]):
                continue
            if leaf in set(leaves(dim)):
                return sides[i]  # type: ignore[return-value]
    return "feature"


def meets_itself(region: Region) -> bool:
    """Whether a region has one set of neurons on two of its dimensions."""
    found = [leaf for stretch in region for leaf in stretch.leaves if leaf.size > 1]
    return any(not leaf.pin and found.count(leaf) > 1 for leaf in found)
