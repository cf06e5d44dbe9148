"""Metanetworks among the candidates, and rankings of zoos with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cli.test_ranking import sized_zoo
from tests.train.zoos import measured_zoo
from weightspace.errors import DataError
from weightspace.rank import Examples, load_ranking, save_ranking
from weightspace.rank import candidates as kinds
from weightspace.rank import ranking as ranking_module
from weightspace.rank.candidates import Candidate, Metanetwork, Ridge, candidates_for
from weightspace.rank.comparing import compare
from weightspace.rank.predicting import rank_networks
from weightspace.rank.ranking import fit_ranking


def test_a_metanetwork_is_cross_validated_saved_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zoo = measured_zoo(tmp_path / "z", 45)
    examples = Examples.of_zoo(zoo, "size")
    assert len(examples) == 44  # one has weights that are no numbers
    only = Metanetwork("stat-nn", "size", tmp_path / "c", epochs=1)
    monkeypatch.setattr(ranking_module, "candidates_for", lambda *_: [only])
    monkeypatch.setattr("weightspace.rank.comparing.fold_count", lambda _: 2)
    ranking = fit_ranking(examples, folder=tmp_path / "c")
    assert ranking.model == "stat-nn"
    assert ranking.reads_weights
    save_ranking(tmp_path / "r.safetensors", ranking)
    again = load_ranking(tmp_path / "r.safetensors")
    one, other = (rank_networks(r, [zoo.path]) for r in (ranking, again))
    assert one.rows == other.rows
    assert len(one.rows) == 44
    assert len(one.problems) == 1
    pytest.importorskip("pandas")
    assert list(one.to_pandas()["rank"][:2]) == [1, 2]


def test_one_that_is_behind_is_given_up_after_the_first_fold(tmp_path: Path) -> None:
    class Slow(Candidate):
        name = "slow"
        cheap = False
        fits = 0

        def fit(self, examples: Examples, train, held, *, seed: int):  # type: ignore[no-untyped-def]
            Slow.fits += 1
            fitted = Ridge().fit(examples, train, held, seed=seed)
            return type(fitted)(fitted.mean, fitted.scale, -fitted.weights, fitted.offset)

    generator = np.random.default_rng(0)
    features = generator.normal(size=(40, 3))
    examples = Examples(features, features[:, 0], np.arange(40))
    validated, _ = compare(examples, [Ridge(), Slow()], seed=0, progress=False)
    assert [one.candidate.name for one in validated] == ["ridge"]
    assert Slow.fits == 1


def test_which_candidates_depends_on_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = Examples.of_zoo(sized_zoo(tmp_path / "z", 20), "size")

    def names() -> list[str]:
        return [one.name for one in candidates_for(examples, "auto", tmp_path)]

    assert names() == ["ridge", "trees"]
    monkeypatch.setattr(kinds, "STAT_NN_FROM", 10)
    assert names() == ["ridge", "trees", "stat-nn"]
    monkeypatch.setattr(kinds, "GNN_FROM", 10)
    assert names() == ["ridge", "trees", "stat-nn", "ng-gnn-linear"]
    monkeypatch.setattr(kinds, "MOST_VALUES", 10)
    assert names() == ["ridge", "trees", "stat-nn"]


def test_features_alone_are_no_zoo(tmp_path: Path) -> None:
    examples = Examples(np.zeros((12, 2)), np.arange(12.0), np.arange(12))
    only = Metanetwork("stat-nn", "size", tmp_path)
    with pytest.raises(DataError, match="zoo"):
        only.fit(examples, np.arange(10), np.arange(10, 12), seed=0)


def test_sizes_that_rank_as_well_are_told(tmp_path: Path) -> None:
    """``family`` is the architecture itself: weights can add nothing to it."""
    zoo = measured_zoo(tmp_path / "z", 60)
    ranking = fit_ranking(Examples.of_zoo(zoo, "family"), model="ridge")
    assert ranking.tau_of_sizes is not None
    assert ranking.tau_of_sizes > 0.7
    assert "sizes of layers" in " ".join([*ranking.trust.reasons, *ranking.notes()])
