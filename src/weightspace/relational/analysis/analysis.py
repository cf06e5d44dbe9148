"""The whole analysis of a study: every statistic of every network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weightspace.errors import DataError, require_between
from weightspace.relational.analysis.agreement import (
    Agreement,
    Correlation,
    EpochAgreement,
    agreement,
    epoch_agreement,
)
from weightspace.relational.analysis.best import (
    CompleteResult,
    GraphResult,
    best_graphs,
    compare_with_complete,
)
from weightspace.relational.analysis.binning import Grid
from weightspace.relational.analysis.controls import ControlResult, compare_controls
from weightspace.relational.analysis.curves import Curve, curves
from weightspace.relational.analysis.regression import Regression, regression
from weightspace.relational.analysis.reliability import Reliability, reliability
from weightspace.relational.analysis.runs import NetworkRuns
from weightspace.relational.analysis.selection import HeldOutBest, held_out_best
from weightspace.relational.analysis.sufficiency import (
    FewGraphs,
    OnePerBin,
    few_graphs,
    one_per_bin,
    subset_against_bins,
)
from weightspace.relational.analysis.sweet_spot import Box, SweetSpot, shared_box, sweet_spot
from weightspace.relational.analysis.units import UnitKind, natural_kind, units_of


@dataclass(frozen=True)
class Cell:
    """A bin of the heatmap.

    Args:
        column: its place along clustering.
        row: its place along path length.
        clustering: of its middle.
        path_length: of its middle.
        graphs: how many it holds.
        error: mean over all their runs.
    """

    column: int
    row: int
    clustering: float
    path_length: float
    graphs: int
    error: float


@dataclass(frozen=True)
class SweetSpots:
    """Sweet spots of one network, by stricter and stricter reading.

    Args:
        kind: what was compared.
        published: by the published procedure.
        controlled: with false discoveries controlled.
        at_least: from bins with enough graphs only; None where graphs are compared.
        fewest: how many graphs these have.
        graph_means: with one sample for each graph of a bin; None where graphs are compared.
    """

    kind: UnitKind
    published: SweetSpot | None
    controlled: SweetSpot | None
    at_least: SweetSpot | None
    fewest: int
    graph_means: SweetSpot | None


@dataclass(frozen=True, eq=False)
class NetworkAnalysis:
    """All statistics of one network; None or empty where data are too few for one."""

    runs: NetworkRuns
    grid: Grid
    best: tuple[GraphResult, ...]
    complete: CompleteResult | None
    average: float
    sweet_spots: SweetSpots
    held_out: HeldOutBest | None
    reliability: Reliability | None
    regression: Regression | None
    cells: tuple[Cell, ...]
    curves: tuple[Curve, ...]
    epochs: tuple[EpochAgreement, ...]
    few_graphs: tuple[FewGraphs, ...]
    one_per_bin: OnePerBin | None
    controls: tuple[ControlResult, ...]


@dataclass(frozen=True, eq=False)
class Analysis:
    """The analysis of a study.

    Args:
        networks: by name.
        agreements: of every two networks, in alphabetical order, that share enough.
        subsets: how the graphs of the second network speak for all of the first one's, where
            they are a part of them.
        shared: what the sweet spots of all networks have in common.
        alpha: the level of tests.
    """

    networks: dict[str, NetworkAnalysis]
    agreements: dict[tuple[str, str], Agreement]
    subsets: dict[tuple[str, str], Correlation]
    shared: Box | None
    alpha: float

    def agreement(self, first: str, second: str) -> Agreement | None:
        """How two networks agree, in either order."""
        return self.agreements.get((first, second)) or self.agreements.get((second, first))


def analyse(
    networks: Sequence[NetworkRuns], *, alpha: float = 0.05, fewest: int = 10, seed: int = 0
) -> Analysis:
    """Analyse a study.

    Args:
        networks: what was measured.
        alpha: the level of tests, and the share of false discoveries.
        fewest: graphs a bin must have to take part in the stricter sweet spot.
        seed: of random choices of graphs.

    Raises:
        DataError: there is no network, or two of one name.
        ModelError: an option is out of its range.
    """
    require_between("alpha", alpha, 0.0001, 0.5)
    require_between("fewest graphs a bin", fewest, 2, 10_000)
    names = [runs.name for runs in networks]
    if not names or len(set(names)) < len(names):
        raise DataError("networks", expected="at least one, of different names", found=str(names))
    found = {runs.name: _network(runs, alpha=alpha, fewest=fewest, seed=seed) for runs in networks}
    pairs = [(a, b) for i, a in enumerate(networks) for b in networks[i + 1 :]]
    agreements = {(a.name, b.name): agreement(a, b) for a, b in pairs}
    spots = [own.sweet_spots.published for own in found.values()]
    return Analysis(
        found,
        {key: value for key, value in agreements.items() if value is not None},
        _subsets(found),
        shared_box(spot.box for spot in spots if spot is not None),
        alpha,
    )


def _network(runs: NetworkRuns, *, alpha: float, fewest: int, seed: int) -> NetworkAnalysis:
    grid = Grid.covering(runs.places)
    single = one_per_bin(runs, grid, seed=seed) if natural_kind(runs, grid) == "bins" else None
    return NetworkAnalysis(
        runs,
        grid,
        tuple(best_graphs(runs)),
        compare_with_complete(runs, alpha=alpha),
        float(runs.means.mean()),
        _sweet_spots(runs, grid, alpha, fewest),
        held_out_best(runs),
        reliability(runs),
        regression(runs),
        tuple(_cells(runs, grid)),
        tuple(curves(runs, grid)),
        tuple(epoch_agreement(runs)),
        tuple(few_graphs(runs, seed=seed)),
        single,
        tuple(compare_controls(runs)),
    )


def _sweet_spots(runs: NetworkRuns, grid: Grid, alpha: float, fewest: int) -> SweetSpots:
    kind = natural_kind(runs, grid)
    units = units_of(runs, grid, kind=kind)
    published = sweet_spot(units, alpha=alpha)
    controlled = sweet_spot(units, alpha=alpha, control=True)
    if kind == "graphs":
        return SweetSpots(kind, published, controlled, None, fewest, None)
    large = units_of(runs, grid, kind=kind, at_least=fewest)
    means = units_of(runs, grid, kind=kind, samples="means")
    return SweetSpots(
        kind,
        published,
        controlled,
        sweet_spot(large, alpha=alpha),
        fewest,
        sweet_spot(means, alpha=alpha),
    )


def _cells(runs: NetworkRuns, grid: Grid) -> list[Cell]:
    return [
        Cell(
            made.column,
            made.row,
            *made.centre,
            len(made.members),
            float(np.nanmean(runs.errors[made.members])),
        )
        for made in grid.fill(runs.places)
    ]


def _subsets(found: dict[str, NetworkAnalysis]) -> dict[tuple[str, str], Correlation]:
    """Networks whose graphs are a part of those that another has many a bin of."""
    subsets = {}
    for whole, own in found.items():
        for part, other in found.items():
            names = set(other.runs.graphs)
            if own.sweet_spots.kind == "bins" and names < set(own.runs.graphs):
                correlation = subset_against_bins(own.runs, other.runs.graphs, own.grid)
                if correlation is not None:
                    subsets[whole, part] = correlation
    return subsets
