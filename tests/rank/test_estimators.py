"""Estimators in the way of scikit-learn, on networks of every form."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from torch import nn

from tests.cli.test_ranking import sized_zoo
from weightspace import NetworkClassifier, NetworkFeatures, NetworkRegressor
from weightspace.errors import DataError
from weightspace.importers import from_module
from weightspace.rank import Examples, fit_ranking, rank_networks
from weightspace.rank.inputs import network_features


def networks(count: int = 24) -> tuple[list[nn.Module], np.ndarray]:
    """Networks whose weights are as large as their label says."""
    torch.manual_seed(0)
    sizes = torch.linspace(0.3, 3, count)[torch.randperm(count)]
    made: list[nn.Module] = []
    for size in sizes:
        net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.mul_(size)
        made.append(net)
    return made, sizes.numpy()


@pytest.mark.parametrize(
    "estimator",
    [NetworkRegressor(model="ridge"), NetworkClassifier()],
    ids=["regressor", "classifier"],
)
def test_scikit_learns_own_checks(estimator: NetworkRegressor | NetworkClassifier) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks themselves warn
        results = check_estimator(estimator, on_fail=None, on_skip=None)
    failed = {r["check_name"]: str(r["exception"]) for r in results if r["status"] == "failed"}
    assert failed == {}
    assert len(results) > 40


def test_every_form_of_a_network_has_the_same_features(tmp_path: Path) -> None:
    net = networks(1)[0][0]
    torch.save(net.state_dict(), tmp_path / "net.pt")
    inputs = torch.zeros(1, 4)
    forms = [
        net,
        net.state_dict(),
        tmp_path / "net.pt",
        str(tmp_path / "net.pt"),
        (net, inputs),
        from_module(net, (inputs,)),
    ]
    rows = network_features(forms, activation="tanh")
    assert np.allclose(rows, rows[0], atol=1e-5)
    single = network_features(from_module(net, (inputs,)))
    assert np.allclose(single[0], rows[0], atol=1e-5)


def test_a_zoo_and_a_folder_of_files_are_learned_from(tmp_path: Path) -> None:
    zoo = sized_zoo(tmp_path / "z", 30)
    regressor = NetworkRegressor(model="ridge").fit(
        zoo, zoo.column("size"), groups=zoo.column("source")
    )
    assert regressor.ranking_.trust.sources == 15
    assert regressor.predict(zoo).shape == (30,)
    low, high = regressor.predict_interval(zoo, coverage=0.8)
    assert (low <= high).all()


def test_scoring_cloning_and_pipelines() -> None:
    made, sizes = networks()
    regressor = NetworkRegressor(model="ridge", random_state=3)
    assert clone(regressor).get_params() == regressor.get_params()
    assert regressor.set_params(model="ridge").model == "ridge"
    scores = cross_val_score(regressor, made, sizes, cv=3)
    assert scores.mean() > 0.5
    pipeline = make_pipeline(NetworkFeatures(), StandardScaler(), Ridge(10.0))
    scores = cross_val_score(pipeline, made, sizes, cv=GroupKFold(3), groups=np.arange(24) // 2)
    assert scores.mean() > 0.3
    classes = np.where(sizes > 1.6, "large", "small")
    classifier = NetworkClassifier(strength=None).fit(made, classes)
    assert classifier.score(made, classes) > 0.9
    assert classifier.predict_proba(made).shape == (24, 2)
    assert set(classifier.predict(made)) == {"large", "small"}


def test_one_path_is_no_sequence_of_networks(tmp_path: Path) -> None:
    for one in ("checkpoints", tmp_path):
        with pytest.raises(DataError, match=r"one path.*Put it into a list"):
            network_features(one)


def test_paths_may_be_texts(tmp_path: Path) -> None:
    networks = [nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)) for _ in range(8)]
    rows = np.concatenate([network_features([net]) for net in networks])
    ranking = fit_ranking(Examples(rows, rows[:, 5] + np.arange(8), np.arange(8)), model="ridge")
    torch.save(networks[0].state_dict(), tmp_path / "a.pt")
    assert len(rank_networks(ranking, [str(tmp_path)]).rows) == 1


def test_what_cannot_be_read_is_said() -> None:
    made, sizes = networks(8)
    with pytest.raises(DataError, match="network 1"):
        network_features([made[0], 3.5])
    with pytest.raises(DataError, match="at least one"):
        network_features([])
    residual = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Linear(3, 5)})
    with pytest.raises(DataError, match="example inputs"):
        network_features([residual])
    with pytest.raises(DataError, match="groups"):
        NetworkRegressor(model="ridge").fit(made, sizes, groups=[1, 2])
    with pytest.raises(ValueError, match="NaN"):
        NetworkRegressor(model="ridge").fit(made, np.full(8, np.nan))


def test_importing_the_package_does_not_import_scikit_learn() -> None:
    code = "import sys, weightspace; print('sklearn' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
