"""Graphs that cover the plane of clustering and path length."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Float, Int

from weightspace.errors import GraphError
from weightspace.relational.graph import RelationalGraph
from weightspace.relational.limits import require_count, require_degree
from weightspace.relational.plane import places
from weightspace.relational.small_world import ws_flex

Array = npt.NDArray[Any]

# Nodes, lowest and highest mean degree, steps between their square roots.
GRIDS = {"n64-3942": (64, 8, 62, 300), "n64-52": (64, 8, 62, 300), "n16-48": (16, 4, 14, 200)}
"""The published sets of graphs, by nodes and number."""

_PROBABILITIES = 300
_PER_GRAPH = 40  # candidates for each graph asked for
_LONG = 4000  # candidates that take seconds


def published_grid(name: str) -> list[RelationalGraph]:
    """The graphs of the published study, in its order.

    You et al., Graph Structure of Neural Networks (2020). The whole grid of mean degrees
    ``linspace(sqrt 8, sqrt 62, 300)^2``, probabilities ``linspace(0, 1, 300)^2`` and 30 seeds
    has millions of graphs; which of them fell in a cell of the plane first is kept in a table.

    Args:
        name: ``n64-3942`` (all cells), ``n64-52`` (every ninth of them) or ``n16-48``.

    Raises:
        GraphError: there is no such set.

    >>> published_grid("n16-48")[0].name
    'ws-flex(16, 5.81459, 0.219237, seed 15)'
    """
    if name not in GRIDS:
        raise GraphError("published graphs", expected=f"one of {', '.join(GRIDS)}", found=name)
    n, low, high, steps = GRIDS[name]
    degrees = np.linspace(np.sqrt(low), np.sqrt(high), steps) ** 2
    chances = np.linspace(0, 1, _PROBABILITIES) ** 2
    return [
        # The published code wrote densities and probabilities with six digits and read them.
        ws_flex(n, n * round(float(degrees[i] / n), 6), round(float(chances[j]), 6), seed=int(seed))
        for i, j, seed in zip(*_table(name), strict=True)
    ]


def sample_plane(
    n: int,
    count: int,
    *,
    degrees: tuple[float, float] | None = None,
    candidates: int | None = None,
    seed: int = 0,
) -> list[RelationalGraph]:
    """WS-flex graphs spread evenly over the part of the plane that they can reach.

    Many graphs are drawn, from degrees even in their square root and probabilities even in
    theirs, as in the published study. Of these, every graph taken is the one farthest from
    all taken before (Gonzalez 1985), with clustering and path length scaled to equal ranges:
    no point of the plane is then more than twice as far from a graph as it would have to be.

    Args:
        n: nodes, at least 6.
        count: graphs to return.
        degrees: the lowest and highest mean degree; ``sqrt n`` and ``n - 2`` unless given, as
            in the published study.
        candidates: graphs to draw; 40 for each returned unless given.
        seed: of everything.

    Returns:
        The graphs; any number of the first are themselves spread evenly.

    Raises:
        GraphError: an argument is out of its range, or too few graphs were connected.

    >>> [graph.n for graph in sample_plane(16, 3)]
    [16, 16, 16]
    """
    require_count("nodes n", n, 6)
    require_count("graphs", count, 1)
    candidates = candidates or _PER_GRAPH * count
    require_count("candidates", candidates, count)
    low, high = degrees or (np.sqrt(n), n - 2)
    for degree in (low, high):
        require_degree(degree, n)
    found = [*_candidates(n, low, high, candidates, seed)]
    found = [*{graph.fingerprint: graph for graph in found}.values()]
    if len(found) < count:
        raise GraphError(
            f"sample of {n} nodes",
            expected=f"{count} different connected graphs",
            found=f"{len(found)} of {candidates} candidates",
            hint="Ask for higher degrees or more candidates.",
        )
    return [found[i] for i in spread(places(found), count)]


def spread(points: Float[Array, "points 2"], count: int) -> Int[Array, "count"]:
    """Indices of points, each the farthest from those before it; the first is the middle one."""
    ranges = np.maximum(np.ptp(points, axis=0), 1e-12)
    scaled = (points - points.min(0)) / ranges
    chosen = [int(np.linalg.norm(scaled - 0.5, axis=1).argmin())]
    nearest = np.full(len(points), np.inf)
    while len(chosen) < count:
        nearest = np.minimum(nearest, np.linalg.norm(scaled - scaled[chosen[-1]], axis=1))
        nearest[chosen] = -1  # equal points are not taken twice
        chosen.append(int(nearest.argmax()))
    return np.array(chosen)


def _table(name: str) -> Int[Array, "3 graphs"]:
    """The place of every graph's degree, of its probability, and its seed."""
    with (
        files("weightspace.relational").joinpath("published_grids.npz").open("rb") as stream,
        np.load(stream, allow_pickle=False) as file,
    ):
        table: Array = file[name].astype(int)
        return table


def _candidates(
    n: int, low: float, high: float, count: int, seed: int
) -> Iterator[RelationalGraph]:
    """Graphs of degrees and probabilities that fill their range (a Sobol sequence)."""
    from rich.console import Console  # noqa: PLC0415 (only long samples need it)
    from rich.progress import track  # noqa: PLC0415
    from scipy.stats import qmc  # noqa: PLC0415 (slow to import)

    engine = qmc.Sobol(2, rng=np.random.default_rng(seed))
    draws = engine.random_base2(max(count - 1, 1).bit_length())[:count]
    roots = np.sqrt(low) + draws[:, 0] * (np.sqrt(high) - np.sqrt(low))
    console = Console(stderr=True)
    numbers = track(range(count), "graphs", transient=True, console=console, disable=count < _LONG)
    for i, k, p in zip(numbers, roots**2, draws[:, 1] ** 2, strict=True):
        try:
            yield ws_flex(n, min(max(k, 2), n), p, seed=seed + i)
        except GraphError:  # never connected: a place that graphs hardly reach
            continue
