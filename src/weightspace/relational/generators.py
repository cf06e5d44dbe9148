"""Families of relational graphs, each of a size and mean degree.

The families of You et al., Graph Structure of Neural Networks (2020), figure 3, and others
that a study of wiring compares with. networkx draws them; those that a draw can leave in
several parts are drawn anew, up to 100 times with the same generator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from weightspace.errors import GraphError
from weightspace.relational.graph import RelationalGraph
from weightspace.relational.limits import require_count, require_degree, require_probability
from weightspace.relational.small_world import TRIES, ws_flex

if TYPE_CHECKING:
    import networkx as nx

__all__ = [
    "barabasi_albert",
    "complete",
    "degree_preserving",
    "erdos_renyi",
    "expander",
    "harary",
    "hierarchical",
    "ring",
    "watts_strogatz",
    "ws_flex",
]


def complete(n: int) -> RelationalGraph:
    """Every node joined with every other: the ordinary dense layer.

    >>> complete(4).density
    1.0
    """
    require_count("nodes n", n, 1)
    return RelationalGraph(~np.eye(n, dtype=bool), f"complete({n})")


def ring(n: int) -> RelationalGraph:
    """Every node joined with the next: the longest paths of mean degree 2."""
    import networkx as nx  # noqa: PLC0415 (slow to import)

    require_count("nodes n", n, 3)
    return RelationalGraph.from_networkx(nx.cycle_graph(n), name=f"ring({n})")


def harary(n: int, k: float) -> RelationalGraph:
    """The graph of this mean degree that takes the most removed nodes to fall apart (Harary 1962).

    Args:
        n: nodes, at least 3.
        k: mean degree, from 2 to n - 1; ``round(k n / 2)`` edges.

    >>> harary(6, 3).degrees.tolist()
    [3, 3, 3, 3, 3, 3]
    """
    import networkx as nx  # noqa: PLC0415 (slow to import)

    graph = nx.hnm_harary_graph(n, _edges(n, k))
    return RelationalGraph.from_networkx(graph, name=f"harary({n}, {k:.6g})")


def erdos_renyi(n: int, k: float, *, seed: int) -> RelationalGraph:
    """A random graph with exactly ``round(k n / 2)`` edges, each set of edges as likely.

    Args:
        n: nodes, at least 3.
        k: mean degree, from 2 to n - 1.
        seed: of the graph.

    Raises:
        GraphError: k is out of its range, or no graph was connected.
    """
    import networkx as nx  # noqa: PLC0415 (slow to import)

    edges = _edges(n, k)
    name = f"erdos-renyi({n}, {k:.6g}, seed {seed})"
    return _connected(lambda random: nx.gnm_random_graph(n, edges, seed=random), seed, name)


def watts_strogatz(n: int, k: int, p: float, *, seed: int) -> RelationalGraph:
    """The classic small-world graph: a ring with an even degree, edges moved with probability p.

    :func:`ws_flex` takes any mean degree.

    Args:
        n: nodes, at least 3.
        k: degree before edges move, even, from 2 to n - 1.
        p: the probability that an edge is moved, from 0 to 1.
        seed: of the graph.

    Raises:
        GraphError: an argument is out of its range, or no graph was connected.
    """
    import networkx as nx  # noqa: PLC0415 (slow to import)

    _edges(n, k)
    require_probability("p", p)
    if k % 2:
        raise GraphError(
            "degree k", expected="an even number", found=str(k), hint="ws_flex takes any degree."
        )
    name = f"watts-strogatz({n}, {k}, {p:.6g}, seed {seed})"
    return _connected(lambda random: nx.watts_strogatz_graph(n, k, p, seed=random), seed, name)


def barabasi_albert(n: int, m: int, *, seed: int) -> RelationalGraph:
    """A graph with hubs: every new node joins m others, likelier those with many edges.

    Args:
        n: nodes, at least 3.
        m: edges of a new node, from 1 to n - 1; the mean degree comes near 2 m.
        seed: of the graph.

    Raises:
        GraphError: an argument is out of its range.
    """
    import networkx as nx  # noqa: PLC0415 (slow to import)

    require_count("nodes n", n, 3)
    require_count("edges m of a new node", m, 1, n - 1)
    name = f"barabasi-albert({n}, {m}, seed {seed})"
    return _connected(lambda random: nx.barabasi_albert_graph(n, m, seed=random), seed, name)


def expander(n: int, k: int, *, seed: int) -> RelationalGraph:
    """A random graph whose nodes all have degree k: short paths and a large spectral gap.

    Random regular graphs are nearly as good expanders as can be (Friedman 2008).

    Args:
        n: nodes, at least 3.
        k: degree, from 3 to n - 1; n k must be even.
        seed: of the graph.

    Raises:
        GraphError: an argument is out of its range, or no graph was connected.

    >>> set(expander(10, 3, seed=0).degrees.tolist())
    {3}
    """
    import networkx as nx  # noqa: PLC0415 (slow to import)

    require_count("nodes n", n, 3)
    require_count("degree k", k, 3, n - 1)
    if n * k % 2:
        raise GraphError("expander", expected="an even n k", found=f"n = {n}, k = {k}")
    name = f"expander({n}, {k}, seed {seed})"
    return _connected(lambda random: nx.random_regular_graph(k, n, seed=random), seed, name)


def hierarchical(
    n: int, k: float, *, modules: Sequence[int] = (8,), decay: float = 0.1, seed: int
) -> RelationalGraph:
    """A graph of modules, within larger modules if wanted, denser inside than between.

    Two nodes that first meet at level l of the hierarchy (0: the same innermost module) are
    joined with a probability that falls as ``decay^l``, scaled so that the mean degree comes
    out as k on average.

    Args:
        n: nodes, at least one to an innermost module.
        k: mean degree, from 2 to n - 1.
        modules: how many modules each larger one has, the outermost first: ``(8,)`` is plainly
            modular, ``(4, 4)`` has 16 modules in 4 groups.
        decay: the ratio of probabilities between levels, above 0 to 1 (1: no modules at all).
        seed: of the graph.

    Raises:
        GraphError: an argument is out of its range, the modules are too small for so many
            edges, or no graph was connected.
    """
    import networkx as nx  # noqa: PLC0415 (slow to import)

    _edges(n, k)
    count = int(np.prod(modules))
    require_count("innermost modules", count, 2, n)
    if not 0 < decay <= 1:
        raise GraphError("decay", expected="above 0, at most 1", found=f"{decay:g}")
    sizes = [n // count + (i < n % count) for i in range(count)]
    chances = _module_chances(sizes, modules, k * n, decay)
    name = f"hierarchical({n}, {k:.6g}, {'x'.join(map(str, modules))}, {decay:g}, seed {seed})"
    return _connected(
        lambda random: nx.stochastic_block_model(sizes, chances, seed=random), seed, name
    )


def degree_preserving(graph: RelationalGraph, *, seed: int, swaps: int = 10) -> RelationalGraph:
    """A null graph: random, connected, and every node keeps its degree.

    Pairs of edges exchange ends (Maslov and Sneppen 2002). What a measure has beyond its
    values on such graphs does not come from the degrees.

    Args:
        graph: to be randomised; a complete graph stays as it is.
        seed: of the exchanges.
        swaps: exchanges tried per edge.

    >>> graph = ws_flex(16, 4, 0.0, seed=0)
    >>> null = degree_preserving(graph, seed=1)
    >>> bool((null.degrees == graph.degrees).all()), null == graph
    (True, False)
    """
    import networkx as nx  # noqa: PLC0415 (slow to import)

    require_count("swaps", swaps, 1)
    name = f"degrees of {graph.name or 'a graph'}, seed {seed}"
    edges = len(graph.edges)
    if graph.n < 4 or edges == graph.n * (graph.n - 1) // 2:
        return RelationalGraph(graph.adjacency, name)
    swapped = graph.to_networkx()
    nx.connected_double_edge_swap(swapped, swaps * edges, seed=Random(seed))
    return RelationalGraph.from_networkx(swapped, name=name)


def _edges(n: int, k: float) -> int:
    """The number of edges for a mean degree, within what n nodes can have."""
    require_degree(k, n)
    if k > n - 1:
        raise GraphError(
            "mean degree k",
            expected=f"a value from 2 to {n - 1}, one less than the number of nodes",
            found=f"{k:g}",
        )
    return round(k * n / 2)


def _connected(draw: Callable[[Random], nx.Graph[Any]], seed: int, name: str) -> RelationalGraph:
    import networkx as nx  # noqa: PLC0415 (slow to import)

    random = Random(seed)
    for _ in range(TRIES):
        graph = draw(random)
        if nx.is_connected(graph):
            return RelationalGraph.from_networkx(graph, name=name)
    raise GraphError(
        name,
        expected="a connected graph",
        found=f"none in {TRIES} tries",
        hint="Ask for a higher mean degree.",
    )


def _module_chances(
    sizes: Sequence[int], modules: Sequence[int], arcs: float, decay: float
) -> list[list[float]]:
    """The probabilities of edges between innermost modules."""
    places = np.stack(np.unravel_index(np.arange(len(sizes)), tuple(modules)), 1)
    same = np.cumprod(places[:, None] == places[None], axis=-1).sum(-1)
    weights = decay ** (len(modules) - same).astype(float)
    own = np.asarray(sizes, dtype=float)
    pairs = own[:, None] * own[None] - np.diag(own)
    chances = weights * arcs / (weights * pairs).sum()
    if chances.max() > 1:
        raise GraphError(
            "hierarchical graph",
            expected="modules that can hold their edges",
            found=f"a probability of {chances.max():.3g} within a module",
            hint="Ask for a lower mean degree, fewer modules or a decay nearer to 1.",
        )
    table: list[list[float]] = chances.tolist()
    return table
