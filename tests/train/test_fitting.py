"""Training: it learns, stops, resumes to the same result, and survives interruption."""

from __future__ import annotations

import shutil
from pathlib import Path

import lightning.pytorch as pl
import pytest
import torch

from tests.train.zoos import SPEC, labelled_zoo
from weightspace.errors import FileError, ModelError
from weightspace.models import NGGNN, Predictor, Requirements
from weightspace.tasks.batches import batches, network_batches
from weightspace.tasks.classes import Classes
from weightspace.tasks.classification import ClassificationTask
from weightspace.tasks.network_task import Schedule
from weightspace.tasks.prediction import predict
from weightspace.train import Budget, Fitted, Interrupted, fit_task
from weightspace.zoo import Zoo


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    return labelled_zoo(tmp_path_factory.mktemp("zoo") / "z")


def noisy(stacked: dict[str, torch.Tensor], generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {k: v + 0.01 * torch.randn(v.shape, generator=generator) for k, v in stacked.items()}


class StopAt(pl.Callback):
    """What Ctrl-C does, in the middle of an epoch."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def on_train_batch_start(self, trainer, module, batch, index) -> None:  # type: ignore[no-untyped-def]
        if trainer.current_epoch == self.epoch and index == 1:
            raise KeyboardInterrupt


def train(
    zoo: Zoo, folder: Path, epochs: int = 6, stop: int | None = None, patience: int = 10
) -> tuple[ClassificationTask, Fitted]:
    torch.manual_seed(0)
    trunk = NGGNN(Requirements.of([SPEC]), width=8, layers=2, frequencies=8)
    model = Predictor(trunk, outputs=3)
    model.fit_normalisation(zoo.graph(zoo.split("train")))
    classes = Classes.of(zoo.column("label").tolist())
    schedule = Schedule(learning_rate=1e-2)
    task = ClassificationTask(model, classes, augmentation=noisy, schedule=schedule, seed=3)
    loaders = []
    for split, seed in (("train", 5), ("validation", None)):
        networks = zoo.split(split)
        labels = classes.encode(zoo.column("label")[networks].tolist())
        loaders.append(batches(zoo, networks, labels, batch_size=8, seed=seed))
    if stop is not None:
        task.configure_callbacks = lambda: [StopAt(stop)]  # type: ignore[method-assign]
    return task, fit_task(
        task,
        *loaders,
        folder,
        progress=False,
        budget=Budget(epochs=epochs, batch_size=8, patience=patience),
    )


def test_it_learns_and_logs(zoo: Zoo, tmp_path: Path) -> None:
    task, fitted = train(zoo, tmp_path, epochs=30)
    assert fitted.best_score > 0.6  # chance is a third
    assert fitted.history[-1]["train_loss"] < fitted.history[0]["train_loss"]
    assert fitted.seconds > 0
    assert {"last.ckpt", "best.ckpt"} <= {p.name for p in tmp_path.iterdir()}
    assert list(tmp_path.glob("logs/*/metrics.csv"))
    networks = zoo.split("validation")
    said = predict(task.model, network_batches(zoo, networks))
    right = said.outputs.argmax(1) == torch.as_tensor(zoo.column("label")[networks])
    # the task has the weights of its best epoch
    assert float(right.float().mean()) == pytest.approx(fitted.best_score)


def test_interrupted_and_resumed_is_the_same(zoo: Zoo, tmp_path: Path) -> None:
    whole, one = train(zoo, tmp_path / "whole")
    with pytest.raises(Interrupted):
        train(zoo, tmp_path / "cut", stop=3)
    resumed, two = train(zoo, tmp_path / "cut")
    assert one.history == two.history
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name


def test_a_finished_training_is_not_done_again(zoo: Zoo, tmp_path: Path) -> None:
    first, one = train(zoo, tmp_path, epochs=4)
    again, two = train(zoo, tmp_path, epochs=4)
    assert one == two
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name


def test_early_stopping(zoo: Zoo, tmp_path: Path) -> None:
    _, fitted = train(zoo, tmp_path, epochs=40, patience=2)
    assert len(fitted.history) < 40


def test_a_damaged_checkpoint_is_an_error(zoo: Zoo, tmp_path: Path) -> None:
    train(zoo, tmp_path, epochs=1)
    data = (tmp_path / "last.ckpt").read_bytes()
    (tmp_path / "last.ckpt").write_bytes(data[: len(data) // 2])
    with pytest.raises(FileError, match=r"last\.ckpt"):
        train(zoo, tmp_path, epochs=2)


@pytest.mark.parametrize("content", [{}, [], {"state_dict": {}, "epoch": 0}])
def test_a_checkpoint_of_something_else_is_an_error(
    content: object, zoo: Zoo, tmp_path: Path
) -> None:
    torch.save(content, tmp_path / "last.ckpt")
    with pytest.raises(FileError, match=r"last\.ckpt"):
        train(zoo, tmp_path, epochs=1)


def test_a_copied_folder_goes_on_by_itself(zoo: Zoo, tmp_path: Path) -> None:
    _, one = train(zoo, tmp_path / "a", epochs=2)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    _, two = train(zoo, tmp_path / "b", epochs=2)
    assert one == two


def test_a_full_disk_leaves_the_last_checkpoint_whole(
    zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Interrupted):
        train(zoo, tmp_path, epochs=4, stop=2)
    before = (tmp_path / "last.ckpt").read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("weightspace.train.fitting.os.fsync", full)
    with pytest.raises(FileError, match="no space left"):
        train(zoo, tmp_path, epochs=4)
    assert (tmp_path / "last.ckpt").read_bytes() == before
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


@pytest.mark.parametrize("options", [{"epochs": 0}, {"batch_size": -1}, {"patience": 0}])
def test_budgets_out_of_range(options: dict[str, int]) -> None:
    with pytest.raises(ModelError, match="a value from"):
        Budget(**options)
