"""Statistics against plain oracles and known truths."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import LeaveOneOut, cross_val_predict

from tests.relational.analysis.studies import study, truth
from weightspace.relational.analysis.agreement import agreement, correlate, epoch_agreement
from weightspace.relational.analysis.best import best_graphs, compare_with_complete
from weightspace.relational.analysis.binning import Grid
from weightspace.relational.analysis.controls import compare_controls
from weightspace.relational.analysis.curves import curves, quadratic
from weightspace.relational.analysis.regression import (
    fit,
    nested,
    place_surface,
    regression,
    surface_errors,
)
from weightspace.relational.analysis.reliability import reliability, reliability_of
from weightspace.relational.analysis.runs import ControlRuns, EpochRuns, NetworkRuns
from weightspace.relational.analysis.selection import held_out_best
from weightspace.relational.analysis.sufficiency import (
    few_graphs,
    one_per_bin,
    subset_against_bins,
)
from weightspace.relational.analysis.sweet_spot import (
    Box,
    adjusted,
    shared_box,
    sweet_spot,
    worse_chances,
)
from weightspace.relational.analysis.units import Unit, natural_kind, units_of


def with_errors(runs: NetworkRuns, errors: np.ndarray) -> NetworkRuns:
    return replace(runs, errors=errors)


# Bins


def test_bins_are_those_of_the_published_heatmap() -> None:
    grid = Grid.covering(np.array([[0.5, 2.0]]))
    assert np.allclose(grid.clustering, np.linspace(0, 1, 16))
    assert np.allclose(grid.path_length, np.linspace(1, 4.5, 16))
    points = np.array([[0.0, 1.0], [1.0, 4.5], [0.5, 2.4], [0.51, 2.5]])
    found = grid.fill(points)
    assert [(made.column, made.row, made.members.tolist()) for made in found] == [
        (0, 0, [0]), (7, 6, [2, 3]), (14, 14, [1])
    ]  # fmt: skip
    assert found[1].centre == pytest.approx((0.5, 1 + 6.5 * 3.5 / 15))
    assert [made.column for made in grid.fill(points, at_least=2)] == [7]


def test_longer_paths_get_more_bins() -> None:
    grid = Grid.covering(np.array([[0.5, 10.0]]))
    assert grid.path_length[-1] >= 10
    assert np.allclose(np.diff(grid.path_length), 3.5 / 15)


def test_many_graphs_are_compared_in_bins() -> None:
    few, many = study(40, 2), study(900, 2)
    assert natural_kind(few, Grid.covering(few.places)) == "graphs"
    assert natural_kind(many, Grid.covering(many.places)) == "bins"
    grid = Grid.covering(many.places)
    runs = units_of(many, grid, kind="bins")
    means = units_of(many, grid, kind="bins", samples="means", at_least=5)
    assert sum(len(unit.samples) for unit in runs) == 1800
    assert all(len(unit.samples) == unit.graphs >= 5 for unit in means)


# Sweet spots


def units(*samples: list[float]) -> list[Unit]:
    return [
        Unit(f"u{i}", (0.1 * i, 1.0 + i), 1, np.array(own, dtype=float))
        for i, own in enumerate(samples)
    ]


def test_the_test_is_students_with_one_tail() -> None:
    random = np.random.default_rng(0)
    made = units(*(random.normal(i / 3, 1, 3 + i).tolist() for i in range(5)))
    best = int(np.argmin([unit.mean for unit in made]))
    for unit, chance in zip(made, worse_chances(made, best), strict=True):
        found = stats.ttest_ind(unit.samples, made[best].samples, alternative="greater")
        assert chance == pytest.approx(found.pvalue, abs=1e-12)


def test_a_sweet_spot_is_the_box_of_what_is_not_worse() -> None:
    made = units([5.0, 5.1], [1.0, 1.2], [1.1, 1.3], [9, 9.1])
    found = sweet_spot(made)
    assert found is not None
    assert found.members == ("u1", "u2")
    assert found.box == Box((0.1, 0.2), (2.0, 3.0))
    assert (found.best, found.best_error, found.units) == ("u1", pytest.approx(1.1), 4)


def test_equal_runs_are_compared_by_their_means_alone() -> None:
    found = sweet_spot(units([1.0, 1.0], [1.0, 1.0], [2.0, 2.0]))
    assert found is not None
    assert found.members == ("u0", "u1")


def test_single_runs_cannot_be_tested() -> None:
    assert sweet_spot(units([1.0], [2.0])) is None
    mixed = sweet_spot(units([1.0], [50.0], [2.0, 2.1]))
    assert mixed is not None
    assert mixed.members == ("u0", "u1")  # one run each: nothing can be said


def test_adjusted_chances_are_those_of_benjamini_and_hochberg() -> None:
    chances = np.array([0.01, 0.04, 0.03, np.nan, 0.5])
    order = np.array([0.01, 0.03, 0.04, 0.5])
    raw = order * 4 / np.arange(1, 5)
    plain = np.minimum.accumulate(raw[::-1])[::-1]
    found = adjusted(chances)
    assert np.isnan(found[3])
    assert found[[0, 2, 1, 4]] == pytest.approx(plain)


def test_controlling_false_discoveries_enlarges_the_spot() -> None:
    random = np.random.default_rng(1)
    made = units(*(random.normal(0.02 * i, 0.3, 5).tolist() for i in range(60)))
    plain, controlled = sweet_spot(made), sweet_spot(made, control=True)
    assert plain is not None
    assert controlled is not None
    assert set(plain.members) < set(controlled.members)


def test_boxes_share_their_overlap() -> None:
    assert shared_box([]) is None
    assert shared_box([Box((0, 1), (1, 2)), Box((0, 1), (3, 4))]) is None


# Best graphs, selection, reliability


def test_equal_graphs_are_ordered_by_their_spread() -> None:
    runs = with_errors(study(4, 2), np.array([[3, 5], [3.9, 4.1], [1, 9], [7, np.nan]]))
    found = best_graphs(runs, 4)
    assert [own.graph for own in found] == ["g1", "g0", "g2", "g3"]
    assert found[0].deviation == pytest.approx(0.1)
    assert found[-1].runs == 1


def test_few_graphs_are_surely_better_where_none_is() -> None:
    random = np.random.default_rng(0)
    runs = with_errors(study(400, 3), random.normal(35, 0.1, (400, 3)))
    runs = replace(runs, complete=random.normal(35, 0.1, 3))
    found = compare_with_complete(runs)
    assert found is not None
    assert 0.2 < found.share < 0.8
    assert found.surely_better == 0
    better = compare_with_complete(with_errors(runs, runs.errors - 5))
    assert better is not None
    assert better.surely_better == 400
    assert compare_with_complete(replace(runs, complete=np.empty(0))) is None


def test_surely_better_is_welchs_test_adjusted() -> None:
    runs = replace(study(30, 4, noise=0.8, seed=1), complete=np.array([32.0, 31.5, 32.5]))
    found = compare_with_complete(runs)
    chances = [
        stats.ttest_ind(row, runs.complete, equal_var=False, alternative="less").pvalue
        for row in runs.errors
    ]
    assert found is not None
    assert found.surely_better == (stats.false_discovery_control(chances) < 0.05).sum()
    assert 0 < found.surely_better < 30


def test_the_winners_curse_is_all_of_the_gain_where_graphs_are_equal() -> None:
    random = np.random.default_rng(0)
    found = [
        held_out_best(with_errors(study(300, 5), random.normal(30, 1, (300, 5)))) for _ in range(30)
    ]
    seen = np.mean([own.seen for own in found if own])
    later = np.mean([own.error for own in found if own])
    assert seen < 28.6
    assert later == pytest.approx(30, abs=0.15)
    first = found[0]
    assert first is not None
    assert (first.chosen_on, first.held_out, first.splits) == (3, 2, 10)
    assert first.curse == pytest.approx(first.error - first.seen)


def test_held_out_errors_equal_a_plain_count() -> None:
    runs = study(20, 4, noise=2)
    runs.errors[3, 1] = np.nan
    found = held_out_best(runs, choose_on=1)
    seen, later = [], []
    for chosen in combinations(range(4), 1):
        usable = np.isfinite(runs.errors[:, chosen[0]])
        best = int(np.where(usable, runs.errors[:, chosen[0]], np.inf).argmin())
        seen.append(runs.errors[best, chosen[0]])
        later.append(np.nanmean(np.delete(runs.errors[best], chosen)))
    assert found is not None
    assert (found.seen, found.error) == pytest.approx((np.mean(seen), np.mean(later)))
    assert held_out_best(study(20, 1)) is None


def test_reliability_is_the_intraclass_correlation() -> None:
    random = np.random.default_rng(0)
    true = random.normal(0, 2, 4000)
    errors = true[:, None] + random.normal(0, 3, (4000, 4))
    found = reliability_of(errors)
    assert found is not None
    assert found.mean == pytest.approx(4 / (4 + 9 / 4), abs=0.03)
    assert found.run == pytest.approx(4 / 13, abs=0.03)
    assert (found.between, found.within) == pytest.approx((2, 3), abs=0.1)
    assert found.runs_for_90 == pytest.approx(9 * 9 / 4, abs=2)
    errors[::3, 0] = np.nan
    fewer = reliability_of(errors)
    assert fewer is not None
    assert fewer.run == pytest.approx(4 / 13, abs=0.03)
    assert 3 < fewer.runs < 4


def test_reliability_needs_two_runs_and_two_graphs() -> None:
    assert reliability(study(20, 1)) is None
    assert reliability(study(20, 3).subset([4])) is None
    same = reliability_of(np.ones((5, 3)))
    assert same is not None
    assert math.isnan(same.mean)


# Regression and curves


def test_fits_and_left_out_predictions_equal_scikit_learn() -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(size=(40, 3)), random.normal(size=40)
    y += x[:, 0] - x[:, 1] ** 2
    found = fit({f"x{i}": x[:, i] for i in range(3)}, y)
    model = LinearRegression()
    assert found.r2 == pytest.approx(model.fit(x, y).score(x, y))
    left = cross_val_predict(model, x, y, cv=LeaveOneOut())
    assert found.predicted == pytest.approx(
        1 - ((y - left) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    )
    assert found.adjusted == pytest.approx(1 - (1 - found.r2) * 39 / 36)


def test_useless_terms_are_rarely_found_useful() -> None:
    chances = []
    for seed in range(200):
        random = np.random.default_rng(seed)
        x, noise, y = random.normal(size=(3, 30))
        chances.append(nested({"x": x}, {"x": x, "noise": noise}, y + x).p)
    assert np.mean(np.array(chances) < 0.05) == pytest.approx(0.05, abs=0.04)
    assert nested({"noise": noise}, {"noise": noise, "x": x}, y + 9 * x).p < 1e-9


def test_place_is_told_from_degree() -> None:
    runs = study(200, 3)
    found = regression(runs)
    assert found is not None
    assert found.place.predicted > 0.95
    assert found.degree.predicted < 0.1
    assert found.place_beyond_degree.p < 1e-20
    assert found.degree_beyond_place.p > 0.001
    by_degree = with_errors(runs, np.log(runs.degrees)[:, None] + 0 * runs.errors)
    other = regression(by_degree)
    assert other is not None
    assert other.degree.r2 == pytest.approx(1)
    assert regression(runs.subset(range(10))) is None


def test_density_stands_apart_where_sizes_differ() -> None:
    runs = study(60, 2)
    assert "log density" not in regression(runs).degree.terms  # type: ignore[union-attr]
    mixed = replace(runs, nodes=np.where(np.arange(60) % 2, 64.0, 32.0))
    assert "log density" in regression(mixed).degree.terms  # type: ignore[union-attr]


def test_the_surface_finds_the_bowl() -> None:
    runs = study(60, 3, noise=0)
    surface = place_surface(runs.places, runs.means)
    places = np.random.default_rng(1).uniform([0, 1], [1, 4], (20, 2))
    assert surface_errors(surface, places) == pytest.approx(truth(*places.T))


def test_quadratics_equal_polyfit() -> None:
    random = np.random.default_rng(0)
    x = random.uniform(2, 3, 30)
    y = 3 * x**2 - 14 * x + random.normal(0, 0.1, 30)
    found = quadratic(x, y)
    assert found.coefficients == pytest.approx(np.polyfit(x, y, 2))
    assert found.p < 1e-6
    flat = quadratic(x, random.normal(size=30))
    assert flat.p > 0.01
    assert math.isnan(quadratic(np.array([0.0, 1, 2]), np.array([1.0, 0, 1])).p)


def test_u_shapes_are_found_where_the_bowl_is() -> None:
    runs = study(900, 3)
    found = curves(runs, Grid.covering(runs.places))
    shaped = [curve for curve in found if curve.u_shaped]
    assert len(shaped) > 0.8 * len(found) > 5
    for curve in shaped:
        middle = 0.5 if curve.along == "clustering" else 2
        assert curve.minimum == pytest.approx(middle, abs=0.25)
    noise = with_errors(runs, np.random.default_rng(0).normal(size=runs.errors.shape))
    assert not any(curve.u_shaped for curve in curves(noise, Grid.covering(noise.places)))
    assert curves(runs.subset(range(4)), Grid.covering(runs.places)) == []


# Agreement and sufficiency


def test_correlations_equal_scipy() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=50)
    y = x + random.normal(size=50)
    found = correlate(x, y)
    assert found.pearson == pytest.approx(np.corrcoef(x, y)[0, 1])
    middle, width = np.arctanh(found.pearson), 1.959964 / np.sqrt(47)
    assert (found.low, found.high) == pytest.approx(
        tuple(np.tanh([middle - width, middle + width]))
    )
    assert found.spearman == pytest.approx(stats.spearmanr(x, y).statistic)
    assert math.isnan(correlate(x, np.ones(50)).pearson)


def test_networks_of_the_same_graphs_are_matched_by_graph() -> None:
    first = study(40, 3, noise=0.5, name="a")
    order = np.random.default_rng(5).permutation(40)
    second = study(40, 3, noise=0.0, name="b").subset(order)
    found = agreement(first, second)
    assert found is not None
    assert found.kind == "graphs"
    true = second.means[np.argsort(order)]
    assert found.graphs_only.pearson == pytest.approx(np.corrcoef(first.means, true)[0, 1])
    assert found.with_complete is not None
    assert found.with_complete.units == 41
    assert found.corrected is not None
    assert found.graphs_only.pearson < found.corrected == pytest.approx(1, abs=0.05)


def test_networks_of_other_graphs_are_matched_by_bin() -> None:
    many, few = study(900, 2, name="a"), study(50, 2, name="b", seed=3, labels="h")
    found = agreement(many, few)
    assert found is not None
    assert found.kind == "bins"
    assert found.corrected is None
    assert found.graphs_only.pearson > 0.8
    assert agreement(few, replace(many, complete=np.empty(0))).with_complete is None  # type: ignore[union-attr]
    assert agreement(few.subset([0, 1]), few) is None


def test_early_epochs_are_compared_with_the_last() -> None:
    runs = study(40, 3, epochs=6)
    found = epoch_agreement(runs)
    assert [own.epoch for own in found] == [0, 1, 2, 3, 4]
    assert found[0].correlation.pearson < found[4].correlation.pearson
    assert runs.by_epoch is not None
    means = runs.by_epoch.errors.mean(2)
    assert found[2].correlation.pearson == pytest.approx(np.corrcoef(means[2], means[5])[0, 1])
    assert found[2].regret == pytest.approx(means[5][means[2].argmin()] - means[5].min())
    assert epoch_agreement(study(40, 3)) == []
    gone = runs.by_epoch.errors.copy()
    gone[1] = np.nan
    fewer = replace(runs, by_epoch=EpochRuns(runs.by_epoch.epochs, gone))
    assert [own.epoch for own in epoch_agreement(fewer)] == [0, 2, 3, 4]


def test_more_graphs_predict_better() -> None:
    found = few_graphs(study(300, 2, noise=2.0))
    assert [own.graphs for own in found] == [10, 15, 20, 30, 40, 52, 75, 100, 200]
    assert found[0].correlation < found[-1].correlation
    assert found[0].low < found[0].correlation < found[0].high
    assert few_graphs(study(300, 2, noise=2.0)) == found
    assert few_graphs(study(12, 2)) == []


def test_single_graphs_speak_for_their_bins() -> None:
    runs = study(900, 3, noise=0.1)
    grid = Grid.covering(runs.places)
    found = one_per_bin(runs, grid)
    assert found is not None
    assert found.correlation > 0.95
    noise = with_errors(runs, np.random.default_rng(0).normal(size=runs.errors.shape))
    alone = one_per_bin(noise, grid)
    assert alone is not None
    assert abs(alone.correlation) < 0.1
    assert one_per_bin(runs.subset([0, 1, 2]), grid) is None
    part = subset_against_bins(runs, [f"g{i}" for i in range(50)], grid)
    assert part is not None
    assert part.units == 50
    assert subset_against_bins(runs, ["g1", "x"], grid) is None


def test_controls_are_paired_where_they_name_their_graph() -> None:
    runs = study(30, 4)
    worse = ControlRuns(runs.errors[:10] + 1.5 + 0.01 * np.arange(10)[:, None], runs.graphs[:10])
    alone = ControlRuns(runs.errors[:5], ("",) * 5)
    lost = ControlRuns(np.full((2, 2), np.nan), ("", ""))
    found = compare_controls(replace(runs, controls={"null": worse, "other": alone, "lost": lost}))
    assert [own.kind for own in found] == ["null", "other"]
    assert found[0].paired
    assert found[0].difference == pytest.approx(1.545)
    assert found[0].p is not None
    assert found[0].p < 1e-9
    assert not found[1].paired
    expected = stats.ttest_ind(runs.means[:5], runs.means, equal_var=False).pvalue
    assert found[1].p == pytest.approx(expected)
