"""The whole analysis: of little data, of much, and of the published results."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.data import shared_data
from tests.relational.analysis.studies import study
from weightspace.errors import DataError, ModelError
from weightspace.relational.analysis import analyse, read_results, to_plain

CONTRACT = ("best", "complete", "sweet_spot", "correlations", "held_out_best", "reliability")


@pytest.mark.parametrize(("graphs", "seeds"), [(1, 1), (2, 1), (3, 2), (12, 1), (60, 3), (700, 2)])
def test_any_amount_of_data_is_analysed(graphs: int, seeds: int) -> None:
    runs = [study(graphs, seeds, name="a", epochs=3), study(graphs, seeds, name="b", seed=1)]
    found = to_plain(analyse(runs))
    assert list(found) == ["a", "b"]
    assert all(key in own for own in found.values() for key in CONTRACT)
    text = json.dumps(found, allow_nan=False)
    assert json.loads(text) == found
    assert (found["a"]["held_out_best"] is None) == (seeds == 1)


def test_missing_runs_and_complete_graphs_do_no_harm() -> None:
    runs = study(60, 3)
    runs.errors[5, 1:] = np.nan
    found = to_plain(analyse([runs.subset(range(60))]))["net"]
    assert found["missing_runs"] == 2
    assert found["correlations"] == {}


def test_the_bowl_is_found() -> None:
    found = analyse([study(900, 4, noise=0.3)]).networks["net"]
    for spot in (found.sweet_spots.published, found.sweet_spots.graph_means):
        assert spot is not None
        assert spot.box.clustering[0] <= 0.5 <= spot.box.clustering[1]
        assert spot.box.path_length[0] <= 2 <= spot.box.path_length[1]
    assert found.sweet_spots.kind == "bins"


def test_options_out_of_range_are_refused() -> None:
    with pytest.raises(DataError, match="of different names"):
        analyse([])
    with pytest.raises(DataError, match="of different names"):
        analyse([study(5), study(6)])
    with pytest.raises(ModelError, match="alpha"):
        analyse([study(5)], alpha=0)
    with pytest.raises(ModelError, match="fewest graphs a bin"):
        analyse([study(5)], fewest=1)


@cache
def published() -> dict[str, Any]:
    return to_plain(analyse(read_results(shared_data("graph2nn/published.npz"))))


RESULTS = {
    # complete graph and its deviation, best graph's error, C, L and degree, graphs better
    "mlp": (33.34, 0.36, 31.98, 0.240, 2.184, 8.7, 3896),
    "cnn6": (48.27, 0.14, 46.73, 0.636, 2.038, 16.6, 52),
    "resnet34": (25.73, 0.07, 24.57, 0.367, 2.287, 8.9, 47),
    "resnet34_sep": (28.39, 0.05, 27.17, 0.303, 2.048, 10.8, 48),
    "resnet50": (23.09, 0.05, 22.42, 0.636, 1.814, 20.2, 47),
    "efficientnet": (25.59, 0.05, 25.07, 0.613, 1.892, 5.6, 38),
}
SPOTS = {
    "mlp": (0.10, 0.50, 1.82, 2.75),
    "cnn6": (0.30, 0.70, 1.57, 2.75),
    "resnet34": (0.10, 0.64, 1.58, 2.52),
    "resnet34_sep": (0.10, 0.70, 1.57, 2.53),
    "resnet50": (0.43, 0.70, 1.57, 2.28),
    "efficientnet": (0.12, 0.70, 1.41, 2.31),
}


@pytest.mark.parametrize("name", RESULTS)
def test_published_best_and_complete_graphs(name: str) -> None:
    own = published()[name]
    error, deviation, best, c, length, degree, better = RESULTS[name]
    assert own["complete"]["error"] == pytest.approx(error, abs=0.005)
    assert own["complete"]["deviation"] == pytest.approx(deviation, abs=0.005)
    assert own["complete"]["better"] == better
    assert own["best"]["error"] == pytest.approx(best, abs=0.005)
    assert own["best"]["clustering"] == pytest.approx(c, abs=0.0005)
    assert own["best"]["path_length"] == pytest.approx(length, abs=0.0005)
    assert own["best"]["degree"] == pytest.approx(degree, abs=0.05)


@pytest.mark.parametrize("name", SPOTS)
def test_published_sweet_spots(name: str) -> None:
    spot = published()[name]["sweet_spot"]
    assert [*spot["clustering"], *spot["path_length"]] == pytest.approx(SPOTS[name], abs=0.006)
    shared = spot["shared_by_all"]
    found = [*shared["clustering"], *shared["path_length"]]
    assert found == pytest.approx([0.43, 0.50, 1.82, 2.28], abs=0.006)


@pytest.mark.parametrize(
    ("first", "second", "value"),
    [
        ("mlp", "resnet34", 0.658),
        ("mlp", "resnet34_sep", 0.715),
        ("resnet34_sep", "resnet34", 0.931),
        ("resnet34_sep", "resnet50", 0.798),  # published as .797
        ("resnet34", "resnet50", 0.757),
        ("mlp", "resnet50", 0.326),
    ],
)
def test_published_correlations(first: str, second: str, value: float) -> None:
    for a, b in ((first, second), (second, first)):
        found = published()[a]["correlations"][b]
        assert found["pearson"] == pytest.approx(value, abs=0.0006)
        assert found["units"] == 53


def test_published_results_read_honestly() -> None:
    mlp = published()["mlp"]
    held_out = mlp["held_out_best"]
    found = (held_out["seen"], held_out["error"], held_out["average"])
    assert found == pytest.approx((31.82, 32.58, 32.67), abs=0.006)
    assert mlp["reliability"]["mean"] == pytest.approx(0.67, abs=0.005)
    spot = mlp["sweet_spot"]
    assert spot["best_graphs"] == 3
    strict = spot["at_least"]
    assert strict["clustering"] == pytest.approx([0.23, 0.43], abs=0.006)
    assert strict["path_length"] == pytest.approx([2.28, 2.52], abs=0.006)
    assert mlp["subsets"]["resnet34"]["pearson"] == pytest.approx(0.903, abs=0.0005)
    for name, degree, place in (
        ("mlp", 0.39, 0.56), ("resnet34", 0.28, 0.84), ("cnn6", 0.67, 0.69)
    ):  # fmt: skip
        fits = published()[name]["regression"]
        assert fits["degree"]["r2"] == pytest.approx(degree, abs=0.006)
        assert fits["place"]["r2"] == pytest.approx(place, abs=0.006)


@pytest.mark.parametrize(("name", "value"), [("resnet34", 0.925), ("resnet50", 0.494)])
def test_published_early_epochs(name: str, value: float) -> None:
    early = {own["epoch"]: own for own in published()[name]["epochs"]}
    assert early[3]["correlation"]["pearson"] == pytest.approx(value, abs=0.0005)
    assert published()["mlp"]["epochs"] == []
