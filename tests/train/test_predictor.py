"""Training on zoos of one and of many specs: it learns, resumes, and says what is wrong."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from scipy.stats import kendalltau, spearmanr

from tests.train.zoos import MIXED_SPECS, measured_zoo
from weightspace.errors import DataError, FileError
from weightspace.models import load_model
from weightspace.tasks.batches import network_batches, read_networks
from weightspace.tasks.classification import ClassificationTask
from weightspace.tasks.labelled import LabelledNetworks
from weightspace.tasks.meanings import labels_of
from weightspace.tasks.prediction import PredictionTask, predict
from weightspace.tasks.regression import RegressionTask, ShareRegressionTask
from weightspace.train import Budget, Interrupted
from weightspace.train.predictor import MODEL_FILE, Outcome, Settings, judge, train_predictor
from weightspace.zoo import Zoo

SMALL = {"width": 8, "layers": 2, "frequencies": 8}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    return measured_zoo(tmp_path_factory.mktemp("mixed") / "z")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    return measured_zoo(tmp_path_factory.mktemp("plain") / "z", mixed=False)


def settings(
    task: type[PredictionTask] = RegressionTask,
    target: str = "size",
    *,
    epochs: int = 3,
    model: str = "ng-gnn",
    **other: object,
) -> Settings:
    return Settings(
        model=model,
        options=SMALL if model == "ng-gnn" else {},
        task=task,
        target=target,
        budget=Budget(epochs=epochs, batch_size=16, patience=epochs),
        learning_rate=1e-2,
        progress=False,
        **other,  # type: ignore[arg-type]
    )


class StopAt(pl.Callback):
    """What Ctrl-C does, in the middle of an epoch."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def on_train_batch_start(self, trainer, module, batch, index) -> None:  # type: ignore[no-untyped-def]
        if trainer.current_epoch == self.epoch and index == 1:
            raise KeyboardInterrupt


def states(outcome: Outcome) -> dict[str, torch.Tensor]:
    return outcome.model.state_dict()


def test_networks_of_any_order_and_spec(mixed: Zoo) -> None:
    rows = [100, 3, 41, 2, 70, 3]
    batch = read_networks(mixed, rows)
    alone = [read_networks(mixed, [row]) for row in rows]
    for network, single in zip(batch.networks(), alone, strict=True):  # type: ignore[union-attr]
        assert network.spec == single.spec  # type: ignore[union-attr]
        for name, tensor in network.state_dict().items():
            assert torch.equal(tensor, single.state_dict()[name])  # type: ignore[union-attr]


@pytest.mark.parametrize("task", [RegressionTask, ShareRegressionTask])
def test_a_regressor_beats_the_mean(mixed: Zoo, tmp_path: Path, task: type[PredictionTask]) -> None:
    outcome = train_predictor(mixed, tmp_path, settings(task, epochs=12))
    truth, said = outcome.tested.truth, outcome.tested.predictions
    assert outcome.tested.scores["r2"] > 0.3
    assert outcome.tested.scores["tau"] > 0.3
    assert np.mean((said - truth) ** 2) < 0.7 * np.var(truth)
    # the scores are those of the plain definitions
    scores = outcome.tested.scores
    assert scores["tau"] == pytest.approx(kendalltau(said, truth).statistic)
    assert scores["spearman"] == pytest.approx(spearmanr(said, truth).statistic)
    assert scores["mse"] == pytest.approx(np.mean((said - truth) ** 2))
    assert scores["r2"] == pytest.approx(1 - np.mean((said - truth) ** 2) / np.var(truth))
    column = mixed.column("size")
    assert truth == pytest.approx(column[outcome.tested.rows], abs=1e-6)
    if task is ShareRegressionTask:
        assert said.min() >= 0 and said.max() <= 1  # noqa: PT018


def test_predictions_have_the_columns_unit(plain: Zoo, tmp_path: Path) -> None:
    outcome = train_predictor(plain, tmp_path, settings(target="loss", epochs=6, model="stat-nn"))
    assert abs(outcome.tested.predictions.mean() - 1e4) < 500
    assert outcome.tested.scores["mse"] < 300**2


def test_interrupted_and_resumed_is_the_same(
    mixed: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train_predictor(mixed, tmp_path / "whole", settings())
    with monkeypatch.context() as patch:
        patch.setattr(RegressionTask, "configure_callbacks", lambda self: [StopAt(1)])
        with pytest.raises(Interrupted):
            train_predictor(mixed, tmp_path / "cut", settings())
    resumed = train_predictor(mixed, tmp_path / "cut", settings())
    assert whole.fitted.history == resumed.fitted.history
    assert whole.tested.scores == resumed.tested.scores
    for name, tensor in states(whole).items():
        assert torch.equal(tensor, states(resumed)[name]), name


def test_seeds_decide(plain: Zoo, tmp_path: Path) -> None:
    made = [
        train_predictor(
            plain, tmp_path / name, settings(model="stat-nn", epochs=1, seed=seed)
        ).tested.predictions
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    ]
    assert np.array_equal(made[0], made[1])
    assert not np.array_equal(made[0], made[2])


def test_classes_of_a_mixed_zoo(mixed: Zoo, tmp_path: Path) -> None:
    outcome = train_predictor(
        mixed, tmp_path, settings(ClassificationTask, "family", model="stat-nn", epochs=8)
    )
    assert outcome.tested.scores["accuracy"] > 0.6  # chance is a third
    assert outcome.tested.predictions.sum(axis=1) == pytest.approx(1, abs=1e-5)


def test_a_saved_regressor_says_the_same(mixed: Zoo, tmp_path: Path) -> None:
    outcome = train_predictor(mixed, tmp_path, settings(epochs=1))
    saved = load_model(tmp_path / MODEL_FILE)
    labels = labels_of(saved.task, tmp_path)
    rows = outcome.tested.rows.tolist()
    said = predict(saved.model, network_batches(mixed, rows))  # type: ignore[arg-type]
    again = labels.decode(said.outputs).numpy()
    assert again == pytest.approx(outcome.tested.predictions, rel=1e-6)
    assert saved.task["target"] == "size"


def test_trained_on_one_family_tested_on_another(mixed: Zoo, tmp_path: Path) -> None:
    family = mixed.spec_indices(range(len(mixed)))
    splits = {
        "train": [i for i in mixed.split("train").tolist() if family[i] != 1],
        "val": [i for i in mixed.split("val").tolist() if family[i] != 1],
        "test": np.flatnonzero(family == 1).tolist(),
    }
    outcome = train_predictor(mixed, tmp_path / "a", settings(epochs=8), splits=splits)
    assert set(outcome.tested.rows.tolist()) == set(splits["test"])
    assert outcome.tested.scores["tau"] > 0.2
    one = {**splits, **{k: [i for i in splits[k] if family[i] == 0] for k in ("train", "val")}}
    other = train_predictor(mixed, tmp_path / "b", settings(epochs=1), splits=one)
    assert np.isfinite(other.tested.predictions).all()
    with pytest.raises(FileError, match="splits"):
        train_predictor(mixed, tmp_path / "a", settings(epochs=8))


def test_judging_other_networks(mixed: Zoo, tmp_path: Path) -> None:
    outcome = train_predictor(mixed, tmp_path, settings(epochs=1))
    networks = LabelledNetworks.read(mixed, mixed.split("val"), "size", name="val")
    scores = judge(outcome.task, mixed, networks).scores
    best = outcome.fitted.history[outcome.fitted.best_epoch]
    for name in ("tau", "mse", "r2"):
        assert scores[name] == pytest.approx(best[f"val_{name}"], rel=1e-4)


def test_networks_without_labels_are_left_out_and_said(
    mixed: Zoo, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        outcome = train_predictor(
            mixed, tmp_path, settings(target="partly", model="stat-nn", epochs=1)
        )
    assert sum(part.unlabelled for part in outcome.parts.values()) == 24
    assert outcome.parts["test"].diverged == 1  # its weights are not numbers
    assert len(outcome.parts["train"]) == 60 - outcome.parts["train"].unlabelled
    assert "without a label" in caplog.text
    assert "1 diverged" in caplog.text


@pytest.mark.parametrize(
    ("task", "target", "message"),
    [
        (ClassificationTask, "size", r"--task regress"),
        (ClassificationTask, "name", r"classes that many networks share"),
        (ClassificationTask, "constant", r"at least two classes"),
        (RegressionTask, "name", r"--task classify"),
        (RegressionTask, "constant", r"nothing to learn"),
        (RegressionTask, "colour", r"column 'colour'"),
        (ShareRegressionTask, "loss", r"shares from 0 to 1"),
    ],
)
def test_columns_that_cannot_be_learned(
    mixed: Zoo, tmp_path: Path, task: type[PredictionTask], target: str, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        train_predictor(mixed, tmp_path / "t", settings(task, target))
    assert not (tmp_path / "t").exists()


def test_models_and_augmentation_of_one_architecture(mixed: Zoo, tmp_path: Path) -> None:
    from weightspace.errors import ModelError
    from weightspace.tasks.augmentation import InrAugmentation

    with pytest.raises(ModelError, match=r"flat-mlp|one architecture|spec"):
        train_predictor(mixed, tmp_path, settings(model="flat-mlp"))
    augmentation = InrAugmentation(MIXED_SPECS[0])
    with pytest.raises(DataError, match="augmentation"):
        train_predictor(mixed, tmp_path, settings(augmentation=augmentation))
    with pytest.raises(DataError, match="splits"):
        train_predictor(mixed, tmp_path, settings(), splits={"train": [0]})


def test_another_training_is_refused(plain: Zoo, tmp_path: Path) -> None:
    train_predictor(plain, tmp_path, settings(model="stat-nn", epochs=1))
    with pytest.raises(FileError, match="target"):
        train_predictor(plain, tmp_path, settings(target="loss", model="stat-nn", epochs=1))
    with pytest.raises(FileError, match="task"):
        train_predictor(plain, tmp_path, settings(ShareRegressionTask, model="stat-nn", epochs=1))
    kept = json.loads((tmp_path / "settings.json").read_text())
    assert kept["task"] == "regression"
