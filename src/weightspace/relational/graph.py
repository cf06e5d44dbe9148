"""Relational graphs: which nodes of a layer hear which nodes of the layer before."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Int

from weightspace.errors import GraphError
from weightspace.relational.limits import require_count

if TYPE_CHECKING:
    import networkx as nx

Array = npt.NDArray[Any]

_BOTH_WAYS = (
    "Relational graphs are undirected: RelationalGraph.symmetrised joins nodes that have an "
    "arc either way."
)


@dataclass(frozen=True, eq=False)
class RelationalGraph:
    """An undirected, connected graph whose nodes are groups of neurons.

    You et al., Graph Structure of Neural Networks (2020), section 2. A layer is one round of
    message exchange, ``x_i' = AGG_{j in N(i)} f_i(x_j)``; every node also hears itself, so
    self-edges are implied and not stored.

    Two graphs are equal if their nodes are joined alike, whatever their names.

    Args:
        adjacency: who is joined with whom; symmetric, with nothing on the diagonal. Kept as a
            read-only copy. Zeros and ones of any number type will do.
        name: what made it, such as ``ws-flex(64, 8, 0.2, seed 3)``.

    Raises:
        GraphError: the matrix is not square, not of zeros and ones, not symmetric, has a
            self-edge, or the graph is in several parts.

    >>> graph = RelationalGraph.from_edges(3, [(0, 1), (1, 2)], name="path")
    >>> graph.degrees.tolist()
    [1, 2, 1]
    """

    adjacency: Bool[Array, "n n"]
    name: str = ""

    def __post_init__(self) -> None:
        own = np.array(_checked(self.adjacency, self._subject))
        own.flags.writeable = False
        object.__setattr__(self, "adjacency", own)
        parts = connected_parts(own)
        if parts != 1:
            raise GraphError(
                self._subject,
                expected="a connected graph",
                found=f"{parts} parts without an edge between them",
                hint="Information could never pass from one part to another.",
            )

    @classmethod
    def from_edges(
        cls, n: int, edges: Iterable[tuple[int, int]], *, name: str = ""
    ) -> RelationalGraph:
        """The graph on nodes 0 to n - 1 with these edges; order, repetition and loops are ignored.

        Raises:
            GraphError: an edge ends outside the nodes, or the graph is in several parts.
        """
        require_count("nodes", n, 1)
        adjacency = np.zeros((n, n), dtype=bool)
        for u, v in edges:
            if not (0 <= u < n and 0 <= v < n):
                raise GraphError(
                    name or "edges", expected=f"nodes from 0 to {n - 1}", found=f"the edge {u}-{v}"
                )
            adjacency[u, v] = adjacency[v, u] = u != v
        return cls(adjacency, name)

    @classmethod
    def from_networkx(cls, graph: nx.Graph[Any], *, name: str = "") -> RelationalGraph:
        """The graph of networkx, its nodes in networkx's order; self-edges and weights are dropped.

        Raises:
            GraphError: it is directed and some arcs go one way only, or it is in several parts.
        """
        place = {node: i for i, node in enumerate(graph.nodes)}
        n = len(place)
        adjacency = np.zeros((n, n), dtype=bool)
        for u, v in graph.edges():
            adjacency[place[u], place[v]] = True
            if not graph.is_directed():
                adjacency[place[v], place[u]] = True
        np.fill_diagonal(adjacency, val=False)
        return cls(adjacency, name or str(graph.name))

    @classmethod
    def symmetrised(cls, arcs: Array, *, name: str = "") -> RelationalGraph:
        """The graph that joins nodes with an arc either way; arcs of any weight but 0 count.

        Args:
            arcs: shape ``[n, n]``; the diagonal is ignored.
            name: of the graph.

        Raises:
            GraphError: the matrix is not square, or the graph is in several parts.

        >>> RelationalGraph.symmetrised(np.array([[0, 1], [0, 0]])).degrees.tolist()
        [1, 1]
        """
        arcs = _square(arcs, name or "graph") != 0
        either = arcs | arcs.T
        np.fill_diagonal(either, val=False)
        return cls(either, name)

    @property
    def n(self) -> int:
        """The number of nodes."""
        return len(self.adjacency)

    @property
    def degrees(self) -> Int[Array, "n"]:
        """How many other nodes each node is joined with."""
        degrees: Array = self.adjacency.sum(1)
        return degrees

    @property
    def edges(self) -> Int[Array, "edges 2"]:
        """Both ends of every edge, the smaller first, in order."""
        return np.argwhere(np.triu(self.adjacency))

    @property
    def density(self) -> float:
        """The share of a layer's blocks that carry weights, self-edges included."""
        return float((self.adjacency.sum() + self.n) / self.n**2)

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of the nodes and edges: equal for equal graphs, on every machine."""
        content = self.n.to_bytes(8, "little") + np.packbits(self.adjacency).tobytes()
        return hashlib.sha256(content).hexdigest()

    def permuted(self, order: Sequence[int] | Int[Array, "n"]) -> RelationalGraph:
        """The graph whose node i is this one's node ``order[i]``.

        Raises:
            GraphError: the order does not name every node once.

        >>> path = RelationalGraph.from_edges(3, [(0, 1), (1, 2)])
        >>> path.permuted([1, 0, 2]).degrees.tolist()
        [2, 1, 1]
        """
        order = np.asarray(order)
        if not np.array_equal(np.sort(order), np.arange(self.n)):
            raise GraphError(
                f"order of {self._subject}",
                expected=f"every node from 0 to {self.n - 1} once",
                found=f"{order.tolist()}"[:80],
            )
        return RelationalGraph(self.adjacency[np.ix_(order, order)], self.name)

    def to_networkx(self) -> nx.Graph[int]:
        """The graph as networkx knows it, without self-edges."""
        import networkx as nx  # noqa: PLC0415 (slow to import)

        graph: nx.Graph[int] = nx.from_edgelist(self.edges.tolist())
        ordered: nx.Graph[int] = nx.empty_graph(self.n)
        ordered.add_edges_from(graph.edges)
        ordered.graph["name"] = self.name
        return ordered

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RelationalGraph):
            return NotImplemented
        return np.array_equal(self.adjacency, other.adjacency)

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        edges = int(self.adjacency.sum()) // 2
        return f"RelationalGraph({self.name or 'unnamed'}: {self.n} nodes, {edges} edges)"

    @property
    def _subject(self) -> str:
        return f"graph {self.name}".strip()


def connected_parts(adjacency: Bool[Array, "n n"]) -> int:
    """The number of parts of an undirected graph that have no edge between them.

    >>> connected_parts(np.zeros((3, 3), dtype=bool))
    3
    """
    left = np.ones(len(adjacency), dtype=bool)
    parts = 0
    while left.any():
        reached = np.zeros_like(left)
        reached[left.argmax()] = True
        size = 0
        while (now := int(reached.sum())) != size:
            size = now
            reached |= adjacency[reached].any(0)
        left &= ~reached
        parts += 1
    return parts


def _square(matrix: Array, subject: str) -> Array:
    matrix = np.asarray(matrix)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not len(matrix):
        raise GraphError(
            subject, expected="a square adjacency matrix", found=f"shape {matrix.shape}"
        )
    return matrix


def _checked(matrix: Array, subject: str) -> Bool[Array, "n n"]:
    """The matrix as booleans, if it is an undirected graph's without self-edges."""
    matrix = _square(matrix, subject)
    if not np.isin(matrix, (0, 1)).all():
        raise GraphError(
            subject,
            expected="an adjacency matrix of zeros and ones",
            found="other values",
            hint="Relational graphs have no weights: compare with a threshold first.",
        )
    adjacency: Array = matrix.astype(bool)
    if loops := int(adjacency.diagonal().sum()):
        raise GraphError(
            subject,
            expected="nothing on the diagonal",
            found=f"{loops} self-edges",
            hint="Every node hears itself anyway: clear the diagonal.",
        )
    if one_way := int((adjacency & ~adjacency.T).sum()):
        raise GraphError(
            subject,
            expected="a symmetric adjacency matrix",
            found=f"a directed graph with {one_way} one-way arcs",
            hint=_BOTH_WAYS,
        )
    return adjacency
