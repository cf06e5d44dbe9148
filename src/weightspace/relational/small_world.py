"""The generator that covers the plane of clustering and path length."""

from __future__ import annotations

from random import Random

import numpy as np

from weightspace.errors import GraphError
from weightspace.relational.graph import RelationalGraph, connected_parts
from weightspace.relational.limits import require_degree, require_probability

TRIES = 100


def ws_flex(n: int, k: float, p: float, *, seed: int) -> RelationalGraph:
    """A small-world graph of any mean degree, whole or not.

    You et al., Graph Structure of Neural Networks (2020), the WS-flex generator. Equal seeds
    give the graphs of the published code: ``e = round(k n / 2)`` edges (half to even, where
    the paper says floor); node i is joined with its next ``e // n`` neighbours on a ring, and
    the first ``e mod n`` nodes with one more; then every node in order, and every neighbour
    it was joined with in order, moves the far end of the edge with probability p to a node
    drawn anew. Up to 100 such graphs are drawn until one is connected.

    Where k comes near n, two nodes across the ring claim one edge: k = 64 of 64 nodes gives
    the complete graph, with 2,016 edges.

    Args:
        n: nodes, at least 3.
        k: mean degree, from 2 to n.
        p: the probability that an edge is moved, from 0 to 1.
        seed: of the graph.

    Raises:
        GraphError: an argument is out of its range, or no graph was connected.

    >>> float(ws_flex(64, 8.5, 0.2, seed=3).degrees.mean())
    8.5
    """
    require_degree(k, n)
    require_probability("p", p)
    generator = Random(seed)
    for _ in range(TRIES):
        rows = _rewired(n, k, p, generator)
        adjacency = np.frombuffer(b"".join(rows), dtype=np.bool_).reshape(n, n)
        if connected_parts(adjacency) == 1:
            return RelationalGraph(adjacency, f"ws-flex({n}, {k:.6g}, {p:.6g}, seed {seed})")
    raise GraphError(
        f"ws-flex({n}, {k:g}, {p:g}, seed {seed})",
        expected="a connected graph",
        found=f"none in {TRIES} tries",
        hint="Ask for a higher mean degree k or a lower probability p.",
    )


def _rewired(n: int, k: float, p: float, generator: Random) -> list[bytearray]:
    """One draw; row u holds a one at every node joined with u.

    The order of draws is the published one: any change gives other graphs.
    """
    edges = round(k * n / 2)
    targets = [
        [(u + step) % n for step in range(1, edges // n + (u < edges % n) + 1)] for u in range(n)
    ]
    rows = [bytearray(n) for _ in range(n)]
    for u, own in enumerate(targets):
        for v in own:
            rows[u][v] = rows[v][u] = 1
    degrees = [sum(row) for row in rows]
    random, choice, nodes = generator.random, generator.choice, range(n)
    for u, own in enumerate(targets):
        row = rows[u]
        for v in own:
            if random() >= p or not row[v]:  # the node across has moved the edge already
                continue
            w = choice(nodes)
            while w == u or row[w]:
                w = choice(nodes)
                if degrees[u] >= n - 1:
                    break
            else:
                row[v] = rows[v][u] = 0
                row[w] = rows[w][u] = 1
                degrees[v] -= 1
                degrees[w] += 1
    return rows
