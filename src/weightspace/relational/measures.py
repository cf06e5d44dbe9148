"""What is measured of a relational graph besides its place in the plane."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from weightspace.relational.generators import degree_preserving
from weightspace.relational.graph import RelationalGraph
from weightspace.relational.limits import require_count
from weightspace.relational.plane import clustering, distances, path_length

if TYPE_CHECKING:
    from collections.abc import Callable

NULLS = 5
"""Null graphs behind a small-worldness, unless told otherwise."""


def measures(graph: RelationalGraph, *, nulls: int = NULLS, seed: int = 0) -> dict[str, float]:
    """Every measure of a graph by name; NaN where one has no value.

    Args:
        graph: to be measured.
        nulls: graphs of equal degrees that small-worldness compares with.
        seed: of these, and of the search for modules.

    >>> from weightspace.relational import complete
    >>> found = measures(complete(8))
    >>> found["clustering"], found["path_length"], found["global_efficiency"]
    (1.0, 1.0, 1.0)
    """
    found = {
        "nodes": float(graph.n),
        "edges": float(len(graph.edges)),
        "degree": float(graph.degrees.mean()),
        "density": graph.density,
    }
    found |= {name: measure(graph) for name, measure in _MEASURES.items()}
    found["modularity"] = modularity(graph, seed=seed)
    found["small_worldness"] = small_worldness(graph, nulls=nulls, seed=seed)
    return found


def global_efficiency(graph: RelationalGraph) -> float:
    """The mean of 1 / distance over all pairs of nodes (Latora and Marchiori 2001)."""
    import networkx as nx  # noqa: PLC0415 (slow to import)

    return float(nx.global_efficiency(graph.to_networkx()))


def local_efficiency(graph: RelationalGraph) -> float:
    """The mean over nodes of the efficiency among their neighbours alone.

    Latora and Marchiori 2001, as networkx defines it, but all neighbourhoods at once: thirty
    times faster at 64 nodes. Nodes with one neighbour count as 0.
    """
    among = graph.adjacency[:, :, None] & graph.adjacency[:, None, :] & graph.adjacency[None]
    steps = distances(among)
    inverse = np.divide(1.0, steps, where=steps > 0, out=np.zeros_like(steps))
    pairs = graph.degrees * (graph.degrees - 1)
    return float((inverse.sum((-2, -1)) / np.maximum(pairs, 1)).mean())


def modularity(graph: RelationalGraph, *, seed: int = 0) -> float:
    """The modularity of the best modules that the Louvain method finds (Blondel et al. 2008).

    Args:
        graph: to be cut in modules.
        seed: of the order in which nodes are looked at.
    """
    import networkx as nx  # noqa: PLC0415 (slow to import)

    network = graph.to_networkx()
    if not len(graph.edges):
        return math.nan
    modules = nx.community.louvain_communities(network, seed=seed)
    return float(nx.community.modularity(network, modules))


def degree_spread(graph: RelationalGraph) -> float:
    """The standard deviation of the degrees over their mean: 0 for regular graphs."""
    mean = float(graph.degrees.mean())
    return float(graph.degrees.std()) / mean if mean else math.nan


def spectral_gap(graph: RelationalGraph) -> float:
    """The second smallest eigenvalue of the normalised Laplacian ``I - D^-1/2 A D^-1/2``.

    The larger, the faster a random walk, or a message, spreads over the graph; complete
    graphs have ``n / (n - 1)``.
    """
    if graph.n < 2:
        return math.nan
    root = np.sqrt(graph.degrees)
    eigenvalues = np.linalg.eigvalsh(np.eye(graph.n) - graph.adjacency / np.outer(root, root))
    return float(eigenvalues[1])


def assortativity(graph: RelationalGraph) -> float:
    """The correlation of degrees at both ends of edges (Newman 2002); NaN for regular graphs."""
    if np.ptp(graph.degrees) == 0:
        return math.nan
    import networkx as nx  # noqa: PLC0415 (slow to import)

    return float(nx.degree_assortativity_coefficient(graph.to_networkx()))


def small_worldness(graph: RelationalGraph, *, nulls: int = NULLS, seed: int = 0) -> float:
    """``(C / C_null) / (L / L_null)``: above 1, far more clustered than its paths are long.

    Humphries and Gurney 2008, with null graphs that keep every degree.

    Args:
        graph: to be measured.
        nulls: over how many null graphs C and L are averaged.
        seed: of the null graphs.

    Returns:
        NaN if no null graph has a triangle.
    """
    require_count("null graphs", nulls, 1)
    others = [degree_preserving(graph, seed=seed + i) for i in range(nulls)]
    null_clustering = float(np.mean([clustering(other) for other in others]))
    null_length = float(np.mean([path_length(other) for other in others]))
    if not null_clustering:
        return math.nan
    return clustering(graph) / null_clustering / (path_length(graph) / null_length)


_MEASURES: dict[str, Callable[[RelationalGraph], float]] = {
    "clustering": clustering,
    "path_length": path_length,
    "global_efficiency": global_efficiency,
    "local_efficiency": local_efficiency,
    "degree_spread": degree_spread,
    "spectral_gap": spectral_gap,
    "assortativity": assortativity,
}
