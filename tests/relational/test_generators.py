"""Generators: exact where published, of the size and degree asked for elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data import shared_data
from weightspace.errors import GraphError
from weightspace.relational import (
    RelationalGraph,
    barabasi_albert,
    complete,
    degree_preserving,
    erdos_renyi,
    expander,
    harary,
    hierarchical,
    ring,
    watts_strogatz,
    ws_flex,
)
from weightspace.relational.plane import places


@pytest.mark.slow
@pytest.mark.parametrize("name", ["graphs_n64_3942", "graphs_n64_52", "graphs_n16_48"])
def test_all_published_graphs_come_from_their_seeds(name: str) -> None:
    with np.load(shared_data("graph2nn/published.npz"), allow_pickle=False) as file:
        rows = file[name]
    graphs = [
        ws_flex(int(n), n * round(density, 6), round(p, 6), seed=int(seed))
        for n, density, p, seed in rows[:, :4].tolist()
    ]
    assert np.abs(places(graphs) - rows[:, 4:]).max() < 1e-9
    for graph, row in zip(graphs[:5], rows, strict=False):
        network = graph.to_networkx()
        assert abs(nx.average_clustering(network) - row[4]) < 1e-9
        assert abs(nx.average_shortest_path_length(network) - row[5]) < 1e-9


def test_ws_flex_rounds_edges_half_to_even() -> None:
    assert len(ws_flex(9, 3, 0.5, seed=0).edges) == 14  # 13.5
    assert len(ws_flex(9, 2.8, 0.5, seed=0).edges) == 13  # 12.6
    assert len(ws_flex(5, 2.6, 0.5, seed=0).edges) == 6  # 6.5


def test_ws_flex_without_moves_is_a_ring_lattice() -> None:
    assert ws_flex(12, 4, 0, seed=5) == RelationalGraph.from_networkx(
        nx.watts_strogatz_graph(12, 4, 0)
    )
    assert ws_flex(12, 2, 0, seed=0) == ring(12)


@pytest.mark.parametrize("p", [0.0, 0.4, 1.0])
def test_ws_flex_of_the_highest_degree_is_complete(p: float) -> None:
    graph = ws_flex(64, 64, p, seed=0)
    assert len(graph.edges) == 2016
    assert graph == complete(64)


@settings(deadline=None)
@given(
    n=st.integers(3, 24), share=st.floats(0, 1), p=st.floats(0, 1), seed=st.integers(0, 2**31 - 1)
)
def test_ws_flex_has_the_edges_asked_for(n: int, share: float, p: float, seed: int) -> None:
    k = 2 + share * (n - 2)
    try:
        graph = ws_flex(n, k, p, seed=seed)
    except GraphError:
        assert k < 4  # only sparse graphs fall apart in all tries
        return
    assert graph == ws_flex(n, k, p, seed=seed)
    twice = max(round(k * n / 2) - n * ((n - 1) // 2), 0) if n % 2 == 0 else 0
    assert len(graph.edges) <= round(k * n / 2)
    if not twice:
        assert len(graph.edges) == min(round(k * n / 2), n * (n - 1) // 2)


GENERATORS: dict[str, Callable[[int], RelationalGraph]] = {
    "ws-flex": lambda seed: ws_flex(30, 4.6, 0.3, seed=seed),
    "erdos-renyi": lambda seed: erdos_renyi(30, 4.6, seed=seed),
    "watts-strogatz": lambda seed: watts_strogatz(30, 4, 0.3, seed=seed),
    "barabasi-albert": lambda seed: barabasi_albert(30, 2, seed=seed),
    "expander": lambda seed: expander(30, 4, seed=seed),
    "hierarchical": lambda seed: hierarchical(30, 4.6, modules=(2, 3), decay=0.3, seed=seed),
    "null": lambda seed: degree_preserving(barabasi_albert(30, 2, seed=0), seed=seed),
}


@pytest.mark.parametrize("name", GENERATORS)
def test_random_graphs_follow_their_seeds(name: str) -> None:
    make = GENERATORS[name]
    graph = make(7)
    assert graph.n == 30
    assert graph == make(7) != make(8)
    assert "7" in graph.name


def test_degrees_are_those_asked_for() -> None:
    assert len(erdos_renyi(64, 8.1, seed=0).edges) == 259
    assert len(harary(64, 8.1).edges) == 259
    assert set(expander(64, 6, seed=0).degrees) == {6}
    assert len(watts_strogatz(64, 8, 0.2, seed=0).edges) == 256
    assert ring(7).degrees.tolist() == [2] * 7
    mean = np.mean([hierarchical(64, 8, seed=i).degrees.mean() for i in range(40)])
    assert mean == pytest.approx(8, abs=0.25)


def test_modules_are_denser_inside() -> None:
    graph = hierarchical(64, 7, modules=(4, 4), decay=0.2, seed=0)
    place = np.arange(64) // 4
    inner = place[:, None] == place
    outer = place[:, None] // 4 == place // 4
    parts = (inner & ~np.eye(64, dtype=bool), outer & ~inner, ~outer)
    shares = [graph.adjacency[part].mean() for part in parts]
    assert shares[0] > 3 * shares[1] > 9 * shares[2] > 0


def test_null_graphs_keep_degrees_and_lose_clustering() -> None:
    graph = ws_flex(64, 8, 0.05, seed=0)
    null = degree_preserving(graph, seed=0)
    assert np.array_equal(null.degrees, graph.degrees)
    clusterings = places([graph, null])[:, 0]
    assert clusterings[1] < 0.4 * clusterings[0]
    assert degree_preserving(complete(6), seed=0) == complete(6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ws_flex(64, 1.9, 0.5, seed=0), "from 2 to 64, the number of nodes, found 1.9"),
        (lambda: ws_flex(64, 65, 0.5, seed=0), "found 65"),
        (lambda: ws_flex(64, float("nan"), 0.5, seed=0), "found nan"),
        (lambda: ws_flex(64, 8, 1.1, seed=0), "probability p: expected a value from 0 to 1"),
        (lambda: ws_flex(64, 8, -0.1, seed=0), "found -0.1"),
        (lambda: ws_flex(2, 2, 0, seed=0), "nodes n: expected at least 3, found 2"),
        (lambda: erdos_renyi(64, 64, seed=0), "from 2 to 63"),
        (lambda: erdos_renyi(200, 2, seed=0), "none in 100 tries"),
        (lambda: watts_strogatz(64, 7, 0, seed=0), "even number, found 7"),
        (lambda: barabasi_albert(8, 8, seed=0), "from 1 to 7, found 8"),
        (lambda: expander(7, 3, seed=0), "an even n k, found n = 7, k = 3"),
        (lambda: expander(8, 8, seed=0), "from 3 to 7, found 8"),
        (lambda: harary(8, 9), "found 9"),
        (lambda: ring(2), "found 2"),
        (lambda: complete(0), "found 0"),
        (lambda: hierarchical(64, 30, modules=(16,), decay=0.01, seed=0), "a probability of"),
        (lambda: hierarchical(8, 4, modules=(16,), seed=0), "from 2 to 8, found 16"),
        (lambda: hierarchical(8, 4, decay=0, seed=0), "above 0, at most 1"),
        (lambda: degree_preserving(ring(5), seed=0, swaps=0), "at least 1"),
    ],
)
def test_arguments_out_of_range_say_their_limit(
    make: Callable[[], RelationalGraph], message: str
) -> None:
    with pytest.raises(GraphError, match=message):
        make()


def test_ws_flex_says_when_no_draw_was_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weightspace.relational.small_world.TRIES", 1)
    with pytest.raises(GraphError, match=r"ws-flex\(600, 2, 1, seed 0\).*none in 1 tries"):
        ws_flex(600, 2, 1, seed=0)
