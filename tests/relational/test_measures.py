"""Measures: equal to networkx, and to what is known of special graphs."""

from __future__ import annotations

import math
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from tests.data import shared_data
from weightspace.errors import FileError, GraphError
from weightspace.relational import (
    RelationalGraph,
    barabasi_albert,
    complete,
    erdos_renyi,
    expander,
    harary,
    hierarchical,
    ring,
    ws_flex,
)
from weightspace.relational.directed import (
    connectome,
    directed_clustering,
    directed_path_length,
    read_connectome,
)
from weightspace.relational.measures import (
    assortativity,
    degree_spread,
    global_efficiency,
    local_efficiency,
    measures,
    modularity,
    small_worldness,
    spectral_gap,
)
from weightspace.relational.plane import clustering, distances, path_length, places

GRAPHS = [
    complete(9),
    ring(11),
    harary(12, 5),
    erdos_renyi(20, 4, seed=0),
    barabasi_albert(25, 1, seed=0),
    barabasi_albert(25, 3, seed=1),
    expander(20, 3, seed=0),
    hierarchical(24, 5, modules=(2, 3), decay=0.2, seed=0),
    ws_flex(33, 6.4, 0.1, seed=2),
    RelationalGraph.from_edges(2, [(0, 1)]),
]
NAMES = [graph.name for graph in GRAPHS]


@pytest.mark.parametrize("graph", GRAPHS, ids=NAMES)
def test_measures_equal_networkx(graph: RelationalGraph) -> None:
    network = graph.to_networkx()
    assert clustering(graph) == pytest.approx(nx.average_clustering(network), abs=1e-12)
    assert path_length(graph) == pytest.approx(nx.average_shortest_path_length(network), abs=1e-12)
    assert global_efficiency(graph) == pytest.approx(nx.global_efficiency(network), abs=1e-12)
    assert local_efficiency(graph) == pytest.approx(nx.local_efficiency(network), abs=1e-12)
    laplacian = nx.normalized_laplacian_matrix(network).toarray()
    assert spectral_gap(graph) == pytest.approx(np.linalg.eigvalsh(laplacian)[1], abs=1e-10)


def test_places_equal_the_measures_of_each_graph() -> None:
    found = places(GRAPHS)
    assert found[:, 0].tolist() == [clustering(graph) for graph in GRAPHS]
    assert found[:, 1].tolist() == [path_length(graph) for graph in GRAPHS]


def test_measures_of_special_graphs() -> None:
    assert spectral_gap(complete(9)) == pytest.approx(9 / 8)
    assert degree_spread(ring(9)) == 0
    assert math.isnan(assortativity(ring(9)))
    star = RelationalGraph.from_edges(6, [(0, i) for i in range(1, 6)])
    assert assortativity(star) == pytest.approx(-1)
    assert degree_spread(star) == pytest.approx(np.std([5, 1, 1, 1, 1, 1]) / (10 / 6))
    assert math.isnan(small_worldness(ring(9)))
    assert small_worldness(complete(5)) == 1


def test_small_worlds_are_small_worlds() -> None:
    assert small_worldness(ws_flex(64, 8, 0.1, seed=0)) > 2
    assert small_worldness(erdos_renyi(64, 8, seed=0)) == pytest.approx(1, abs=0.35)


def test_modules_are_found() -> None:
    modular = hierarchical(64, 8, modules=(4,), decay=0.05, seed=0)
    assert modularity(modular) > modularity(erdos_renyi(64, 8, seed=0)) + 0.15
    assert modularity(modular, seed=1) == modularity(modular, seed=1)


def test_all_measures_have_names() -> None:
    found = measures(GRAPHS[3], nulls=1)
    assert set(found) == {
        "nodes", "edges", "degree", "density", "clustering", "path_length", "global_efficiency",
        "local_efficiency", "degree_spread", "spectral_gap", "assortativity", "modularity",
        "small_worldness",
    }  # fmt: skip
    assert all(isinstance(value, float) for value in found.values())
    assert found["edges"] == 40
    alone = measures(complete(1))
    assert math.isnan(alone["modularity"])


def directed(n: int, share: float, seed: int) -> np.ndarray:
    arcs: np.ndarray = np.random.default_rng(seed).random((n, n)) < share
    np.fill_diagonal(arcs, val=False)
    return arcs


@pytest.mark.parametrize("seed", range(5))
def test_directed_measures_equal_a_plain_count(seed: int) -> None:
    arcs = directed(12, 0.35, seed)
    shares = []
    for node in range(12):
        near = [i for i in range(12) if arcs[node, i] or arcs[i, node]]
        inside = sum(bool(arcs[i, j]) for i in near for j in near)
        shares.append(inside / (len(near) * (len(near) - 1)) if len(near) > 1 else 0)
    assert directed_clustering(arcs) == pytest.approx(np.mean(shares), abs=1e-12)
    lengths = dict(nx.all_pairs_shortest_path_length(nx.DiGraph(arcs)))
    steps = distances(arcs)
    for i in range(12):
        for j in range(12):
            assert steps[i, j] == lengths[i].get(j, math.inf)
    finite = [step for own in lengths.values() for step in own.values() if step]
    assert directed_path_length(arcs) == pytest.approx(np.mean(finite), abs=1e-12)


def test_no_arc_has_no_path() -> None:
    with pytest.raises(GraphError, match="at least one arc"):
        directed_path_length(np.zeros((3, 3), dtype=bool))


@pytest.mark.parametrize(
    ("file", "arcs", "place"),
    [("cat", 820, (0.55, 1.81)), ("mcvisual", 308, (0.53, 1.72)), ("mcwhole", 746, (0.45, 2.33))],
)
def test_connectomes_lie_where_published(file: str, arcs: int, place: tuple[float, float]) -> None:
    wiring = read_connectome(shared_data(f"graph2nn/{file}.txt"))
    assert wiring.sum() == arcs
    found = directed_clustering(wiring), directed_path_length(wiring)
    assert found == pytest.approx(place, abs=0.005)
    assert connectome(shared_data(f"graph2nn/{file}.txt")).name == file


def test_archives_hold_the_same_connectomes() -> None:
    text = read_connectome(shared_data("graph2nn/cat.txt"))
    archive = read_connectome(shared_data("connectomes/connectomes.npz"), "cat_cortex")
    assert np.array_equal(text, archive)


def test_unreadable_connectomes_say_why(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="a matrix of numbers as text"):
        read_connectome(tmp_path / "missing.txt")
    (tmp_path / "words.txt").write_text("no numbers")
    with pytest.raises(FileError, match="a matrix of numbers as text"):
        read_connectome(tmp_path / "words.txt")
    (tmp_path / "row.txt").write_text("1 2 3")
    with pytest.raises(FileError, match=r"shape \(1, 3\)"):
        read_connectome(tmp_path / "row.txt")
    (tmp_path / "broken.npz").write_bytes(b"not an archive")
    with pytest.raises(FileError, match="an archive of matrices"):
        read_connectome(tmp_path / "broken.npz", "x")
    np.savez(tmp_path / "good.npz", mine=np.eye(3), line=np.zeros(3))
    with pytest.raises(FileError, match="expected one of mine, found 'other'"):
        read_connectome(tmp_path / "good.npz", "other")
    np.savez(tmp_path / "objects.npz", mine=np.array([None]))
    with pytest.raises(FileError, match="an archive of matrices"):
        read_connectome(tmp_path / "objects.npz", "mine")
