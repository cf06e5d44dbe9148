"""Samples of the plane: the published ones exactly, others evenly."""

from __future__ import annotations

import numpy as np
import pytest

from tests.data import shared_data
from weightspace.errors import GraphError
from weightspace.relational.plane import places
from weightspace.relational.sampling import GRIDS, published_grid, sample_plane, spread
from weightspace.relational.small_world import ws_flex


@pytest.mark.parametrize("name", ["n64-52", "n16-48"])
def test_published_grids_are_the_published_graphs(name: str) -> None:
    with np.load(shared_data("graph2nn/published.npz"), allow_pickle=False) as file:
        rows = file[f"graphs_{name.replace('-', '_')}"]
    assert np.abs(places(published_grid(name)) - rows[:, 4:]).max() < 1e-9


@pytest.mark.slow
def test_the_large_published_grid_is_whole() -> None:
    graphs = published_grid("n64-3942")
    assert len(graphs) == 3942
    assert set(GRIDS) == {"n64-3942", "n64-52", "n16-48"}
    with np.load(shared_data("graph2nn/published.npz"), allow_pickle=False) as file:
        assert np.abs(places(graphs) - file["graphs_n64_3942"][:, 4:]).max() < 1e-9


def test_samples_follow_their_seed_and_differ() -> None:
    graphs = sample_plane(16, 20, seed=3)
    assert len({graph.fingerprint for graph in graphs}) == 20
    assert graphs == sample_plane(16, 20, seed=3) != sample_plane(16, 20, seed=4)


def test_samples_are_more_even_than_random_graphs() -> None:
    """The largest distance from any reachable place to a sampled graph."""
    rng = np.random.default_rng(0)
    cloud = [
        ws_flex(32, rng.uniform(4, 30), rng.uniform() ** 2, seed=int(rng.integers(2**31)))
        for _ in range(400)
    ]

    def gap(points: np.ndarray) -> float:
        everywhere = places([*cloud])
        steps = np.linalg.norm(everywhere[:, None] - points[None], axis=-1)
        return float(steps.min(1).max())

    even = places(sample_plane(32, 25, degrees=(4, 30), seed=1))
    assert gap(even) < 0.6 * gap(places(cloud[:25]))


def test_spread_takes_the_farthest_point_each_time() -> None:
    line = np.stack([np.arange(11.0), np.zeros(11)], 1)
    assert spread(line, 3).tolist()[1:] in ([0, 10], [10, 0])
    assert sorted(spread(np.zeros((4, 2)), 4).tolist()) == [0, 1, 2, 3]


def test_samples_that_cannot_be_are_refused() -> None:
    with pytest.raises(GraphError, match="at least 6, found 5"):
        sample_plane(5, 2)
    with pytest.raises(GraphError, match="from 2 to 16, the number of nodes, found 17"):
        sample_plane(16, 2, degrees=(4, 17))
    with pytest.raises(GraphError, match="candidates: expected at least 9, found 4"):
        sample_plane(16, 9, candidates=4)
    with pytest.raises(GraphError, match="5 different connected graphs, found 1 of"):
        sample_plane(6, 5, degrees=(6, 6))
    with pytest.raises(GraphError, match="one of n64-3942, n64-52, n16-48, found n32"):
        published_grid("n32")
