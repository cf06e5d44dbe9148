"""Relational graphs: what they accept, keep and equal."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from weightspace.errors import GraphError
from weightspace.relational import RelationalGraph, complete, erdos_renyi, ring


def test_a_graph_is_read_only_and_its_own() -> None:
    adjacency = np.array([[0, 1], [1, 0]])
    graph = RelationalGraph(adjacency, "pair")
    adjacency[0, 1] = 0
    assert graph.adjacency.dtype == bool
    assert graph.adjacency[0, 1]
    with pytest.raises(ValueError, match="read-only"):
        graph.adjacency[0, 1] = False


def test_networkx_gives_the_same_graph_back() -> None:
    graph = erdos_renyi(20, 5, seed=3)
    again = RelationalGraph.from_networkx(graph.to_networkx())
    assert again == graph
    assert again.name == graph.name
    assert hash(again) == hash(graph)
    assert graph.fingerprint == again.fingerprint != erdos_renyi(20, 5, seed=4).fingerprint


def test_networkx_nodes_of_any_name_keep_their_order() -> None:
    graph = nx.Graph([("b", "a"), ("b", "c"), ("c", "c")])
    assert RelationalGraph.from_networkx(graph).degrees.tolist() == [2, 1, 1]


def test_two_way_directed_graphs_are_undirected() -> None:
    graph = nx.DiGraph([(0, 1), (1, 0)])
    assert RelationalGraph.from_networkx(graph).n == 2


def test_edges_in_any_order_make_the_graph() -> None:
    graph = RelationalGraph.from_edges(3, [(2, 1), (1, 0), (0, 1), (2, 2)])
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.density == pytest.approx(7 / 9)


def test_permuting_renames_nodes() -> None:
    graph = erdos_renyi(12, 4, seed=0)
    order = np.random.default_rng(0).permutation(12)
    permuted = graph.permuted(order)
    assert np.array_equal(permuted.degrees, graph.degrees[order])
    assert permuted.permuted(np.argsort(order)) == graph
    with pytest.raises(GraphError, match="every node from 0 to 11 once"):
        graph.permuted([0] * 12)


def test_one_node_is_a_graph() -> None:
    assert complete(1).density == 1
    assert list(complete(1).to_networkx().nodes) == [0]


def test_a_directed_graph_is_refused_and_can_be_symmetrised() -> None:
    arcs = np.array([[0, 1, 0], [0, 0, 1], [1, 1, 0]])
    with pytest.raises(GraphError, match=r"2 one-way arcs.*symmetrised"):
        RelationalGraph(arcs)
    assert RelationalGraph.symmetrised(arcs) == complete(3)
    with pytest.raises(GraphError, match="one-way"):
        RelationalGraph.from_networkx(nx.DiGraph([(0, 1)]))


@pytest.mark.parametrize(
    ("adjacency", "message"),
    [
        (np.zeros((2, 2)), "2 parts"),
        (np.zeros((2, 3)), r"shape \(2, 3\)"),
        (np.zeros((0, 0)), r"shape \(0, 0\)"),
        (np.zeros(4), r"shape \(4,\)"),
        (np.array([[0, 0.5], [0.5, 0]]), "zeros and ones"),
        (np.array([[0, np.nan], [np.nan, 0]]), "zeros and ones"),
        (np.ones((2, 2)), "2 self-edges"),
    ],
)
def test_what_is_no_relational_graph_is_refused(adjacency: np.ndarray, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        RelationalGraph(adjacency, "mine")


def test_edges_outside_the_nodes_are_refused() -> None:
    with pytest.raises(GraphError, match=r"nodes from 0 to 1, found the edge 0-2"):
        RelationalGraph.from_edges(2, [(0, 2)])
    with pytest.raises(GraphError, match="3 parts"):
        RelationalGraph.from_edges(4, [(0, 1)])
    with pytest.raises(GraphError, match="at least 1, found 0"):
        RelationalGraph.from_edges(0, [])


def test_graphs_print_what_they_are() -> None:
    assert repr(ring(5)) == "RelationalGraph(ring(5): 5 nodes, 5 edges)"
    assert ring(5) != "ring"
