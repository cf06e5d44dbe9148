"""Folds, candidates, trust, familiarity and saving."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.rank.tables import table
from weightspace.errors import DataError, FileError, ModelError
from weightspace.rank import Examples, fit_ranking, is_ranking, load_ranking, save_ranking
from weightspace.rank.candidates import BoostedTrees, Ridge
from weightspace.rank.comparing import compare
from weightspace.rank.familiarity import Familiarity
from weightspace.rank.folds import group_numbers, grouped_folds
from weightspace.rank.trust import judge_trust, tau_interval


@pytest.mark.parametrize("seed", [0, 1])
def test_no_source_is_on_both_sides(seed: int) -> None:
    groups = np.random.default_rng(seed).integers(0, 20, 80)
    groups = np.unique(groups, return_inverse=True)[1]
    folds = grouped_folds(groups, folds=5, seed=seed)
    for group in np.unique(groups):
        assert len(set(folds[groups == group].tolist())) == 1
    assert set(folds.tolist()) == set(range(5))
    assert not np.array_equal(folds, grouped_folds(groups, folds=5, seed=seed + 5))


def test_networks_without_a_source_stand_alone() -> None:
    assert group_numbers(["", "", None, float("nan"), "a", "a"]).tolist() == [0, 1, 2, 3, 4, 4]


def test_a_model_never_sees_the_sources_that_it_is_judged_by() -> None:
    """Values of a source are noise: whoever remembers sources would rank them perfectly."""
    examples = table(0, 120, signal=0.0, each=6)
    assert _tau(examples) < 0.3
    apart = Examples(examples.features, examples.values, np.arange(120))
    assert _tau(apart) > 0.5


def _tau(examples: Examples) -> float:
    validated, _ = compare(examples, [BoostedTrees()], seed=0, progress=False)
    return validated[0].tau


def test_plain_trees_predict_as_those_of_scikit_learn() -> None:
    from sklearn.ensemble import GradientBoostingRegressor

    examples = table(1, 80)
    made: list[GradientBoostingRegressor] = []
    original = GradientBoostingRegressor.fit

    def fit(self: GradientBoostingRegressor, *data: object) -> GradientBoostingRegressor:
        made.append(self)
        return original(self, *data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GradientBoostingRegressor, "fit", fit)
        fitted = BoostedTrees().fit(examples, np.arange(60), np.arange(60, 80), seed=3)
    said = fitted.predict(examples.features, None)
    assert said == pytest.approx(made[0].predict(examples.features.astype(np.float32)))


def test_a_linear_model_cannot_run_away() -> None:
    examples = table(2, 60)
    fitted = Ridge().fit(examples, np.arange(60), np.arange(0), seed=0)
    far = fitted.predict(np.full((1, 6), 1e9), None)
    assert np.abs(far[0]) < 20 * np.abs(examples.values).max()


def test_what_can_be_ranked_is_trusted_and_noise_is_not() -> None:
    good = fit_ranking(table(0, 80), model="ridge")
    assert good.trust.trusted
    assert good.trust.low > 0.3
    assert good.trust.p_value <= 0.01
    noise = fit_ranking(table(0, 40, signal=0.0))
    assert not noise.trust.trusted
    few = fit_ranking(table(0, 20), model="ridge")
    assert "too few" in few.trust.reasons[0]


def test_chance_is_taken_for_better_as_seldom_as_promised() -> None:
    found = []
    for seed in range(40):
        examples = table(seed, 40, signal=0.0)
        folds = grouped_folds(examples.groups, folds=5, seed=seed)
        held = np.zeros(40)
        for fold in range(5):
            rest, out = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            held[out] = (
                Ridge().fit(examples, rest, out, seed=0).predict(examples.features[out], None)
            )
        found.append(judge_trust([held], 0, examples.values, examples.groups, seed=0))
    assert sum(trust.p_value <= 0.05 for trust in found) <= 5
    assert sum(trust.trusted for trust in found) <= 3


def test_pairs_and_ranks_agree() -> None:
    from weightspace.rank.trust import _agreement
    from weightspace.tasks.scores import kendall_tau

    generator = np.random.default_rng(0)
    said, values = generator.normal(size=30).round(1), generator.integers(0, 5, 30).astype(float)
    places = generator.permutation(30)
    assert _agreement(said, values)(places) == pytest.approx(kendall_tau(said, values[places]))


def test_the_interval_of_tau_is_as_wide_as_repetitions_differ() -> None:
    generator = np.random.default_rng(0)
    taus, widths = [], []
    for _ in range(60):
        truth = generator.normal(size=60)
        said = truth + generator.normal(size=60)
        low, high = tau_interval(said, truth, np.arange(60))
        widths.append(high - low)
        from weightspace.tasks.scores import kendall_tau

        taus.append(kendall_tau(said, truth))
    assert 0.7 < np.mean(widths) / (2 * 1.96 * np.std(taus)) < 1.4


def test_copies_of_a_source_do_not_narrow_the_interval_of_tau() -> None:
    generator = np.random.default_rng(1)
    truth = generator.normal(size=30)
    said = truth + generator.normal(size=30)
    groups = np.arange(30)
    alone = tau_interval(said, truth, groups)
    copied = tau_interval(*(np.repeat(a, 4) for a in (said, truth)), np.repeat(groups, 4))
    assert copied[1] - copied[0] > 0.9 * (alone[1] - alone[0])


def test_false_alarms_are_as_rare_as_promised_and_strangers_are_found() -> None:
    alarms, found = [], []
    for seed in range(10):
        generator = np.random.default_rng(seed)
        mixing = generator.normal(size=(8, 8))
        features = generator.normal(size=(460, 8)) @ mixing
        groups = np.arange(60)
        folds = grouped_folds(groups, folds=10, seed=seed)
        familiarity = Familiarity.of(features[:60], groups, folds, rate=0.1)
        alarms.append(familiarity.unlike(features[60:]).mean())
        stranger = 5 * generator.normal(size=(50, 8)) @ mixing
        found.append(familiarity.unlike(stranger).mean())
    assert 0.02 < np.mean(alarms) < 0.14
    assert np.mean(found) > 0.8


def test_what_never_varied_and_now_does_is_unlike() -> None:
    features = np.random.default_rng(0).normal(size=(40, 5))
    features[:, 4] = 3.0
    groups = np.arange(40)
    familiarity = Familiarity.of(
        features, groups, grouped_folds(groups, folds=5, seed=0), rate=0.05
    )
    other = features[:1].copy()
    other[0, 4] = 4.0
    assert familiarity.unlike(other)[0]
    assert familiarity.differences(other[0], list("abcde"))[0] == "e above the usual"


def test_the_rate_of_alarms_is_no_less_than_few_sources_allow() -> None:
    features = np.random.default_rng(0).normal(size=(9, 2))
    groups = np.arange(9)
    folds = grouped_folds(groups, folds=3, seed=0)
    assert Familiarity.of(features, groups, folds, rate=0.01).rate == pytest.approx(0.1)


@pytest.mark.parametrize("model", ["ridge", "trees"])
def test_saved_and_read_it_says_the_same(tmp_path: Path, model: str) -> None:
    examples = table(0, 12)
    ranking = fit_ranking(examples, model=model)
    save_ranking(tmp_path / "r.safetensors", ranking)
    assert not is_ranking(tmp_path / "none")
    with pytest.raises(FileError, match="another version"):  # made of features of its own
        patched(tmp_path / "r.safetensors", b'["log10', b'["log11')
    save_ranking(tmp_path / "r.safetensors", ranking)
    again = load_ranking(tmp_path / "r.safetensors")
    one, other = (r.predict(examples.features) for r in (ranking, again))
    for name in ("values", "low", "high", "unlike", "strangeness"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    assert again.report() == ranking.report()


def patched(path: Path, old: bytes, new: bytes) -> None:
    content = path.read_bytes()
    old, new = (text.replace(b'"', b'\\"') for text in (old, new))
    assert old in content
    path.write_bytes(content.replace(old, new, 1))
    load_ranking(path)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.safetensors"
    save_ranking(path, fit_ranking(table(0, 20), model="ridge"))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(FileError):
        load_ranking(path)
    path.write_bytes(b"nothing")
    with pytest.raises(FileError, match="something else"):
        load_ranking(path)
    with pytest.raises(FileError, match="no such file"):
        load_ranking(tmp_path / "other")


def test_too_few_and_unknown() -> None:
    with pytest.raises(DataError, match="at least 6"):
        fit_ranking(table(0, 5))
    with pytest.raises(ModelError, match="auto, ridge, trees"):
        fit_ranking(table(0, 20), model="forest")
    ranking = fit_ranking(table(0, 20), model="ridge")
    with pytest.raises(DataError, match="features"):
        ranking.predict(np.zeros((2, 3)))
    with pytest.raises(DataError, match="finite"):
        ranking.predict(np.full((2, 6), np.nan))


def test_few_sources_have_intervals_without_ends_and_say_so() -> None:
    ranking = fit_ranking(table(0, 8), model="ridge")
    said = ranking.predict(table(0, 8).features)
    assert np.isinf(said.high).all()
    assert "infinite" in ranking.notes()[0]


def test_checkpoints_of_a_recipes_model_have_one_source(tmp_path: Path) -> None:
    from weightspace.graph import chain_spec
    from weightspace.testing import sample_graph
    from weightspace.zoo import ZooWriter

    spec = chain_spec([2, 3, 1])
    writer = ZooWriter(tmp_path, specs=[spec], recipe={"name": "kept twice"})
    rows = [{"model": i // 2, "measured": float(i)} for i in range(8)]
    writer.write_part(0, sample_graph(spec, 8, dtype=torch.float32).stacked_state(), rows)
    zoo = writer.finish(splits={})
    assert Examples.of_zoo(zoo, "measured").groups.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert Examples.of_zoo(zoo, "measured", by="measured").sources == 8


def test_a_ranking_that_is_upside_down_is_called_so() -> None:
    values = np.arange(20.0)
    trust = judge_trust([-values], 0, values, np.arange(20), seed=0)
    assert any(reason.startswith("it ranks the wrong way round") for reason in trust.reasons)
