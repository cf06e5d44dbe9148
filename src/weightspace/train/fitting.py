"""Training a task with Lightning: loop, early stopping, best checkpoint, resume, logs."""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import lightning.pytorch as pl
import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint, RichProgressBar
from torch.utils.data import DataLoader

from weightspace.errors import FileError, reason_of, require_between
from weightspace.nn import fuse_kernels
from weightspace.train.loggers import make_loggers
from weightspace.zoo.allocator import keep_freed_memory

Mode = Literal["max", "min"]


@dataclass(frozen=True)
class Budget:
    """How long and how a task is trained.

    Args:
        epochs: at the most.
        batch_size: networks a step.
        patience: epochs without a better validation score before training stops.
        clip: the largest norm of a gradient; None where the task sees to it.
    """

    epochs: int = 20
    batch_size: int = 64
    patience: int = 10
    clip: float | None = 10.0

    def __post_init__(self) -> None:
        require_between("epochs", self.epochs, 1, 1_000_000)
        require_between("batch size", self.batch_size, 1, 1_000_000)
        require_between("patience", self.patience, 1, 1_000_000)
        if self.clip is not None:
            require_between("clip", self.clip, 0.0, 1e30)


@dataclass(frozen=True)
class Fitted:
    """A finished training.

    Args:
        history: one row an epoch, as logged.
        seconds: the time in training, over all of its interrupted parts.
        best_epoch: the epoch whose weights the task has now.
        best_score: the validation score there.
    """

    history: list[dict[str, float]]
    seconds: float
    best_epoch: int
    best_score: float


class Interrupted(KeyboardInterrupt):
    """Training was interrupted after its state was saved."""


def fit_task(
    task: pl.LightningModule,
    train: DataLoader[Any],
    validation: DataLoader[Any],
    folder: Path,
    *,
    budget: Budget,
    monitor: str = "val_accuracy",
    mode: Mode = "max",
    progress: bool = True,
    logger: str | None = None,
) -> Fitted:
    """Train a task, or go on with a training that was interrupted in this folder.

    The state is saved after every epoch. A run that was interrupted and started again gives
    the same result as one that was not. The task ends with the weights of its best epoch.

    Args:
        task: the Lightning module.
        train: batches to train on.
        validation: batches to judge by.
        folder: for checkpoints and logs (CSV, and TensorBoard where it is installed).
        budget: epochs, patience, gradient clipping.
        monitor: the logged score that chooses the epoch.
        mode: whether that score is to be high or low.
        progress: whether to show a progress bar.
        logger: where epochs are logged, see :func:`weightspace.train.loggers.make_loggers`.

    Raises:
        DataError: the logger is not installed.
        FileError: the folder's last checkpoint cannot be read.
        Interrupted: Ctrl-C; the last whole epoch is saved.
    """
    keep_freed_memory()
    fuse_kernels()
    best = _checkpoint(folder, "best", monitor, mode)
    last = _checkpoint(folder, "last", None, mode)
    stopping = EarlyStopping(monitor, mode=mode, patience=budget.patience)
    record = _Record()
    callbacks: list[pl.Callback] = [stopping, record, best, last]
    if progress:
        callbacks.append(_ProgressBar(leave=False))
    with _quiet():
        trainer = pl.Trainer(
            accelerator="auto",
            devices=1,
            max_epochs=budget.epochs,
            callbacks=callbacks,
            logger=make_loggers(folder, logger),
            gradient_clip_val=budget.clip,
            enable_progress_bar=progress,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            log_every_n_steps=1,
            default_root_dir=folder,
            plugins=[_AtomicCheckpoints()],
        )
        _run(trainer, task, train, validation, folder / "last.ckpt")
    chosen = _load(folder / "best.ckpt")
    task.load_state_dict(chosen["state_dict"])
    epoch = int(chosen["epoch"])
    return Fitted(record.history, record.seconds, epoch, record.history[epoch][monitor])


def _run(
    trainer: pl.Trainer,
    task: pl.LightningModule,
    train: DataLoader[Any],
    validation: DataLoader[Any],
    last: Path,
) -> None:
    if last.is_file():
        missing = {"state_dict", "epoch", *_RESUMED} - set(_load(last))
        if missing:
            raise FileError(
                last,
                expected="the state of a training",
                found=f"a file without {', '.join(sorted(missing))}",
                hint="Delete the folder to train from the beginning.",
            )
    try:
        trainer.fit(
            task, train, validation, weights_only=True, ckpt_path=last if last.is_file() else None
        )
    except SystemExit as error:  # Lightning turns Ctrl-C into an exit after its own cleaning up
        raise Interrupted from error
    if trainer.interrupted:
        raise Interrupted


def _checkpoint(folder: Path, name: str, monitor: str | None, mode: Mode) -> ModelCheckpoint:
    """Keep one checkpoint: of the best score, or of the last epoch if there is no score."""
    return ModelCheckpoint(
        folder,
        name,
        monitor=monitor,
        mode=mode,
        enable_version_counter=False,
        save_on_train_epoch_end=True,
    )


def _load(path: Path) -> dict[str, Any]:
    """Read a checkpoint of Lightning's without executing anything."""
    try:
        checkpoint: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a damaged file makes torch raise
        raise FileError(
            path,
            expected="a checkpoint of this training",
            found=reason_of(error),
            hint="Delete the folder to train from the beginning.",
        ) from error
    if not isinstance(checkpoint, dict) or not {"state_dict", "epoch"} <= set(checkpoint):
        raise FileError(
            path,
            expected="a checkpoint of this training",
            found="something else",
            hint="Delete the folder to train from the beginning.",
        )
    return checkpoint


_RESUMED = ("loops", "callbacks", "optimizer_states", "lr_schedulers")


class _AtomicCheckpoints(TorchCheckpointIO):
    """Writes a checkpoint beside its place and moves it there, so it is never half a file."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None
    ) -> None:
        place = Path(path)
        temporary = place.with_name(f".{place.name}.{os.getpid()}")
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as file:
                torch.save(checkpoint, file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(place)
        except (OSError, RuntimeError) as error:
            temporary.unlink(missing_ok=True)
            raise FileError(
                place,
                expected="a place with room for a checkpoint",
                found=reason_of(error),
                hint="Free some space; the epochs before this one are kept.",
            ) from error


class _ProgressBar(RichProgressBar):
    """Shows scores and no version number: a folder holds one training."""

    def get_metrics(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> Any:
        metrics = super().get_metrics(trainer, pl_module)
        return {key: value for key, value in metrics.items() if key != "v_num"}


class _Record(pl.Callback):
    """The scores of every epoch and the seconds in training, kept in the checkpoints."""

    def __init__(self) -> None:
        self.history: list[dict[str, float]] = []
        self.seconds = 0.0
        self._since = 0.0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._since = time.monotonic()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        now = time.monotonic()
        self.seconds, self._since = self.seconds + now - self._since, now
        scores = {key: float(value) for key, value in trainer.callback_metrics.items()}
        self.history.append({"epoch": float(trainer.current_epoch), **scores})

    def state_dict(self) -> dict[str, Any]:
        return {"seconds": self.seconds, "history": self.history}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.seconds, self.history = state_dict["seconds"], list(state_dict["history"])


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Lightning's advice on loaders and paths, which does not apply here."""
    names = ("lightning.pytorch", "lightning.fabric")
    levels = [logging.getLogger(name).level for name in names]
    for name in names:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, level in zip(names, levels, strict=True):
            logging.getLogger(name).setLevel(level)
