"""Clustering and path length of many graphs at once, as networkx defines them.

networkx takes ten milliseconds a graph of 64 nodes; a study looks at tens of thousands. Here
a stack of graphs is one tensor, and both measures are a few matrix products.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Float

from weightspace.relational.graph import RelationalGraph

Array = npt.NDArray[Any]

_AT_ONCE = 2**21  # entries of a stack of adjacency matrices


def clustering(graph: RelationalGraph) -> float:
    """Mean local clustering C: the share of a node's pairs of neighbours that are joined.

    Nodes with one neighbour count as 0, as in networkx's ``average_clustering``.

    >>> from weightspace.relational import complete, ring
    >>> clustering(complete(5)), clustering(ring(5))
    (1.0, 0.0)
    """
    return float(local_clustering(graph.adjacency).mean())


def path_length(graph: RelationalGraph) -> float:
    """Mean length L of the shortest paths between two nodes.

    >>> from weightspace.relational import complete, ring
    >>> path_length(complete(5)), path_length(ring(5))
    (1.0, 1.5)
    """
    return float(_mean_distances(graph.adjacency[None])[0])


def places(graphs: Sequence[RelationalGraph]) -> Float[Array, "graphs 2"]:
    """Where graphs lie in the plane: C and L of each, equal to the functions of one graph.

    Args:
        graphs: of any sizes; those of one size are taken together.
    """
    found = np.empty((len(graphs), 2))
    sizes = np.array([graph.n for graph in graphs], dtype=int)
    for n in np.unique(sizes):
        members = np.flatnonzero(sizes == n)
        for part in np.array_split(members, -(-len(members) * n * n // _AT_ONCE)):
            stack = np.stack([graphs[i].adjacency for i in part])
            found[part, 0] = local_clustering(stack).mean(-1)
            found[part, 1] = _mean_distances(stack)
    return found


def local_clustering(adjacency: Bool[Array, "*graphs n n"]) -> Float[Array, "*graphs n"]:
    """The clustering of every node, 0 for nodes with fewer than two neighbours."""
    joined = adjacency.astype(np.float32)  # exact: counts stay far below 2^24
    triangles = ((joined @ joined) * joined).sum(-1, dtype=np.float64)
    degrees = adjacency.sum(-1).astype(np.float64)
    pairs = degrees * (degrees - 1)
    local: Array = triangles / np.maximum(pairs, 1)
    return local


def distances(adjacency: Bool[Array, "*graphs n n"]) -> Float[Array, "*graphs n n"]:
    """Steps on the shortest path from every node to every other; infinite where there is none.

    Rows are starts, so that the arcs of directed graphs go from row to column.

    >>> distances(np.array([[0, 1], [0, 0]], dtype=bool)).tolist()
    [[0.0, 1.0], [inf, 0.0]]
    """
    n = adjacency.shape[-1]
    steps = adjacency.astype(np.float32)
    reached = adjacency | np.eye(n, dtype=bool)
    found = np.where(adjacency, 1.0, np.inf)
    found[..., range(n), range(n)] = 0
    for length in range(2, n):
        new = (reached.astype(np.float32) @ steps > 0) & ~reached
        if not new.any():
            break
        found[new] = length
        reached |= new
    return found


def _mean_distances(adjacency: Bool[Array, "graphs n n"]) -> Float[Array, "graphs"]:
    n = adjacency.shape[-1]
    means: Array = distances(adjacency).sum((-2, -1)) / max(n * (n - 1), 1)
    return means
