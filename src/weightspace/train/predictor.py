"""From a zoo to a saved model that predicts: what `train`, `demo` and experiments run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from weightspace.errors import LARGEST_SEED, DataError, require_between
from weightspace.graph import GraphSpec
from weightspace.models import (
    Predictor,
    ProbeOnly,
    Requirements,
    Runner,
    make_model,
    save_model,
)
from weightspace.tasks.batches import Augmentation, batches, network_batches, read_networks
from weightspace.tasks.classification import ClassificationTask
from weightspace.tasks.labelled import LabelledNetworks
from weightspace.tasks.labels import Labels
from weightspace.tasks.network_task import Schedule
from weightspace.tasks.prediction import PredictionTask, predict
from weightspace.train.claiming import claim_folder, described, rows_hash, zoo_hash
from weightspace.train.fitting import Budget, Fitted, fit_task
from weightspace.zoo import Zoo

Array = npt.NDArray[Any]
MODEL_FILE = "model.safetensors"
SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class Settings:
    """How a model is trained to predict something of a zoo's networks.

    Args:
        model: a name among :data:`weightspace.models.MODELS`.
        options: of the model, over its own.
        task: what kind of thing is predicted, such as
            :class:`~weightspace.tasks.regression.RegressionTask`.
        target: the metadata column that holds it.
        budget: epochs, batch size, patience.
        learning_rate: at its highest.
        weight_decay: of AdamW.
        augmentation: changes the weights of training networks, or None; for zoos of one spec.
        seed: of initialisation, order, dropout and augmentation.
        progress: whether to show a progress bar.
        logger: where epochs are logged, see :func:`weightspace.train.loggers.make_loggers`.
    """

    model: str
    options: Mapping[str, int | float | bool | str] = field(default_factory=dict)
    task: type[PredictionTask] = ClassificationTask
    target: str = "label"
    budget: Budget = field(default_factory=Budget)
    learning_rate: float = 1e-3
    weight_decay: float = 5e-4
    augmentation: Augmentation | None = None
    seed: int = 0
    progress: bool = True
    logger: str | None = None

    def __post_init__(self) -> None:
        require_between("learning rate", self.learning_rate, 1e-12, 1e6)
        require_between("weight decay", self.weight_decay, 0.0, 1e6)
        require_between("seed", self.seed, 0, LARGEST_SEED)


@dataclass(frozen=True, eq=False)
class Tested:
    """What a model says of networks that it was not trained on, and how right it is.

    Args:
        scores: by the names of the task's scores.
        rows: ``[networks]``, their numbers in the zoo.
        truth: ``[networks]``, class indices or numbers in the column's unit.
        predictions: ``[networks, classes]`` chances, or ``[networks]`` numbers.
        embeddings: ``[networks, d]``.
    """

    scores: Mapping[str, float]
    rows: Array
    truth: Array
    predictions: Array
    embeddings: Array


@dataclass(frozen=True, eq=False)
class Outcome:
    """A trained model and how it does on the test split.

    Args:
        task: with the model, whose weights are those of its best epoch, and its labels.
        fitted: the training's history.
        tested: on the test split.
        parts: the networks of each split that have a label.
        seed: of the training.
    """

    task: PredictionTask
    fitted: Fitted
    tested: Tested
    parts: Mapping[str, LabelledNetworks]
    seed: int

    @property
    def model(self) -> Predictor:
        """The trained model."""
        return self.task.model

    @property
    def labels(self) -> Labels:
        """What its outputs mean."""
        return self.task.labels


def train_predictor(
    zoo: Zoo,
    folder: Path,
    settings: Settings,
    *,
    splits: Mapping[str, Sequence[int]] | None = None,
    runner: Runner | None = None,
) -> Outcome:
    """Train a model on a zoo of one or many specs, test it, and save it.

    ``val`` chooses the epoch and ``test`` judges it once. Networks without a label, and those
    whose training diverged, are left out. The model is saved as ``model.safetensors``.

    Args:
        zoo: the networks.
        folder: for the model, checkpoints and logs; an interrupted training goes on there.
        settings: the model and its training.
        splits: the networks to train on, choose by and test on, as ``train``, ``val`` and
            ``test``; the zoo's own splits of these names if not given.
        runner: runs the networks for ``probe-only``, where they are no chains of linear layers.

    Raises:
        DataError: a split or column is missing, or the column holds something else.
        ModelError: the model cannot read the networks.
        Interrupted: Ctrl-C; the last whole epoch is saved.
    """
    torch.manual_seed(settings.seed)
    parts = _read_parts(zoo, settings.target, splits)
    _require_one_spec_to_augment(zoo, settings.augmentation)
    labels = settings.task.labels_type.of(
        parts["train"].values,
        column=settings.target,
        others=[*parts["val"].values, *parts["test"].values],
    )
    model = _make_model(settings, Requirements.of(_specs_of(zoo, parts)), labels, runner)
    claim_folder(folder, _claims(zoo, settings, splits))
    model.fit_normalisation(read_networks(zoo, parts["train"].rows))
    task = settings.task(
        model,
        labels,
        augmentation=settings.augmentation,
        schedule=Schedule(learning_rate=settings.learning_rate, weight_decay=settings.weight_decay),
        seed=settings.seed,
    )
    fitted = _fit(zoo, task, parts, folder, settings)
    meaning = {**labels.meaning(), "target": settings.target}
    save_model(folder / MODEL_FILE, model, name=settings.model, task=meaning)
    tested = judge(task, zoo, parts["test"], batch_size=settings.budget.batch_size)
    model.eval()
    return Outcome(task, fitted, tested, parts, settings.seed)


def judge(
    task: PredictionTask, zoo: Zoo, networks: LabelledNetworks, *, batch_size: int = 64
) -> Tested:
    """Judge a trained model by networks that it was not trained on.

    Args:
        task: with the trained model and its labels.
        zoo: the networks, not necessarily of the training zoo.
        networks: which of them, with their labels.
        batch_size: how many are read at once.
    """
    if torch.cuda.is_available():
        task.model.cuda()
    said = predict(task.model, network_batches(zoo, networks.rows, batch_size))
    task.cpu()
    encoded = task.labels.encode(networks.values)
    _, truth = task.scored(said.outputs, encoded)
    return Tested(
        scores=task.scores(said.outputs, encoded),
        rows=np.asarray(networks.rows),
        truth=truth.numpy(),
        predictions=task.labels.decode(said.outputs).numpy(),
        embeddings=said.embeddings.numpy(),
    )


def _make_model(
    settings: Settings, requirements: Requirements, labels: Labels, runner: Runner | None
) -> Predictor:
    options = dict(settings.options)
    if runner is not None:
        options |= {"values": runner.values, "answers": runner.answers}
    model = make_model(settings.model, requirements, outputs=labels.outputs, options=options)
    if isinstance(model.trunk, ProbeOnly):
        model.trunk.runner = runner or model.trunk.runner
    return model


def _fit(
    zoo: Zoo,
    task: PredictionTask,
    parts: Mapping[str, LabelledNetworks],
    folder: Path,
    settings: Settings,
) -> Fitted:
    train, validation = (
        batches(
            zoo,
            parts[name].rows,
            task.labels.encode(parts[name].values),
            batch_size=settings.budget.batch_size,
            seed=seed,
        )
        for name, seed in (("train", settings.seed), ("val", None))
    )
    return fit_task(
        task,
        train,
        validation,
        folder,
        budget=settings.budget,
        monitor=task.monitor,
        mode=task.mode,
        progress=settings.progress,
        logger=settings.logger,
    )


def _read_parts(
    zoo: Zoo, column: str, splits: Mapping[str, Sequence[int]] | None
) -> dict[str, LabelledNetworks]:
    """The labelled networks of each split."""
    if splits is not None and set(splits) != set(SPLITS):
        raise DataError("splits", expected=", ".join(SPLITS), found=", ".join(splits) or "none")
    return {
        name: LabelledNetworks.read(
            zoo, zoo.split(name).tolist() if splits is None else splits[name], column, name=name
        )
        for name in SPLITS
    }


def _specs_of(zoo: Zoo, parts: Mapping[str, LabelledNetworks]) -> list[GraphSpec]:
    """The specs of the networks of all splits, which decide what a model must be able to read."""
    rows = [row for part in parts.values() for row in part.rows]
    return [zoo.specs[index] for index in np.unique(zoo.spec_indices(rows)).tolist()]


def _require_one_spec_to_augment(zoo: Zoo, augmentation: Augmentation | None) -> None:
    if augmentation is not None and len(zoo.specs) > 1:
        raise DataError(
            f"{zoo.path}, augmentation",
            expected="networks of one spec",
            found=f"{len(zoo.specs)} specs",
            hint="Train without augmentation.",
        )


def _claims(
    zoo: Zoo, settings: Settings, splits: Mapping[str, Sequence[int]] | None
) -> dict[str, str]:
    """All that decides the result of a training, as text."""
    budget = settings.budget
    return {
        "zoo": zoo_hash(zoo),
        "splits": "the zoo's" if splits is None else rows_hash(splits),
        "model": settings.model,
        "options": str(dict(settings.options)),
        "task": settings.task.labels_type.kind,
        "target": settings.target,
        "epochs": str(budget.epochs),
        "batch_size": str(budget.batch_size),
        "patience": str(budget.patience),
        "clip": str(budget.clip),
        "learning_rate": str(settings.learning_rate),
        "weight_decay": str(settings.weight_decay),
        "augmentation": described(settings.augmentation),
        "seed": str(settings.seed),
    }
