"""From a zoo to a saved classifier of its networks: what `train` and `demo` run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torchmetrics.functional.classification import multiclass_confusion_matrix

from weightspace.errors import LARGEST_SEED, DataError, FileError, require_between
from weightspace.models import Predictor, Requirements, make_model, save_model
from weightspace.tasks.batches import batches
from weightspace.tasks.classification import Augmentation, ClassificationTask, classify
from weightspace.tasks.labels import Classes, column_of
from weightspace.train.fitting import Budget, Fitted, fit_task
from weightspace.zoo import Zoo

Array = npt.NDArray[Any]
MODEL_FILE = "model.safetensors"


@dataclass(frozen=True)
class Settings:
    """How a classifier is trained.

    Args:
        model: a name among :data:`weightspace.models.MODELS`.
        options: of the model, over its own.
        column: the metadata column that holds the classes.
        budget: epochs, batch size, patience.
        learning_rate: at its highest.
        weight_decay: of AdamW.
        augmentation: changes the weights of training networks, or None.
        seed: of initialisation, order, dropout and augmentation.
        progress: whether to show a progress bar.
    """

    model: str
    options: Mapping[str, int | float | bool | str] = field(default_factory=dict)
    column: str = "label"
    budget: Budget = field(default_factory=Budget)
    learning_rate: float = 1e-3
    weight_decay: float = 5e-4
    augmentation: Augmentation | None = None
    seed: int = 0
    progress: bool = True

    def __post_init__(self) -> None:
        require_between("learning rate", self.learning_rate, 1e-12, 1e6)
        require_between("weight decay", self.weight_decay, 0.0, 1e6)
        require_between("seed", self.seed, 0, LARGEST_SEED)


@dataclass(frozen=True, eq=False)
class Outcome:
    """A trained classifier and how it does on the test split.

    Args:
        model: with the weights of its best epoch.
        classes: the names of its outputs.
        fitted: the training's history.
        test_accuracy: the share of test networks classified rightly.
        confusion: ``[classes, classes]``, rows true, columns predicted.
        embeddings: ``[networks, d]`` of the test networks.
        labels: ``[networks]``, their class indices.
        seed: of the training.
    """

    model: Predictor
    classes: Classes
    fitted: Fitted
    test_accuracy: float
    confusion: Array
    embeddings: Array
    labels: Array
    seed: int


def train_classifier(zoo: Zoo, folder: Path, settings: Settings) -> Outcome:
    """Train a classifier of a zoo's networks, test it, and save it as ``model.safetensors``.

    The zoo must be of one spec and have the splits ``train``, ``val`` and ``test``; the model
    is chosen by the second and judged by the third.

    Args:
        zoo: the networks.
        folder: for the model, checkpoints and logs; an interrupted training goes on there.
        settings: the model and its training.

    Raises:
        DataError: a split or column is missing, or a label.
        ModelError: the model cannot read the networks.
        Interrupted: Ctrl-C; the last whole epoch is saved.
    """
    torch.manual_seed(settings.seed)
    parts = {name: _Part.read(zoo, name, settings.column) for name in ("train", "val", "test")}
    classes = Classes.of([label for part in parts.values() for label in part.values])
    model = make_model(
        settings.model,
        Requirements.of([zoo.spec]),
        outputs=len(classes),
        options=settings.options,
    )
    _claim(folder, zoo, settings)
    model.fit_normalisation(zoo.graph(parts["train"].networks))
    task = ClassificationTask(
        model,
        zoo.spec,
        augmentation=settings.augmentation,
        seed=settings.seed,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
    )
    train, validation = (
        batches(
            zoo,
            parts[name].networks,
            classes.indices(parts[name].values),
            batch_size=settings.budget.batch_size,
            seed=seed,
        )
        for name, seed in (("train", settings.seed), ("val", None))
    )
    fitted = fit_task(
        task, train, validation, folder, budget=settings.budget, progress=settings.progress
    )
    meaning = {"kind": "classification", "classes": list(classes.names)}
    save_model(folder / MODEL_FILE, model, name=settings.model, task=meaning)
    labels = classes.indices(parts["test"].values)
    said = classify(model, zoo.spec, stacks_of(zoo, parts["test"].networks))
    chosen = said.probabilities.argmax(dim=1)
    confusion = multiclass_confusion_matrix(chosen, labels, num_classes=len(classes))
    return Outcome(
        model=model.eval(),
        classes=classes,
        fitted=fitted,
        test_accuracy=float((chosen == labels).float().mean()),
        confusion=confusion.numpy(),
        embeddings=said.embeddings.numpy(),
        labels=labels.numpy(),
        seed=settings.seed,
    )


def _claim(folder: Path, zoo: Zoo, settings: Settings) -> None:
    """Keep the settings in the folder, so that only the same training goes on there."""
    wanted = {
        "zoo": hashlib.sha256((zoo.path / "zoo.json").read_bytes()).hexdigest()[:16],
        "spec": zoo.spec.fingerprint,
        **{key: str(value) for key, value in asdict(settings).items() if key != "progress"},
    }
    path = folder / "settings.json"
    try:
        if path.is_file():
            found = json.loads(path.read_text())
            if not isinstance(found, dict):
                raise ValueError(f"{type(found).__name__} instead of settings")
            other = [key for key in wanted if found.get(key) != wanted[key]]
            if other:
                raise FileError(
                    path,
                    expected=", ".join(f"{key} {wanted[key]}" for key in other),
                    found=", ".join(str(found.get(key)) for key in other),
                    hint="The folder holds another training; choose another one.",
                )
            return
        folder.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(wanted, indent=1))
        temporary.replace(path)
    except (OSError, ValueError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(path, expected="the settings of a training", found=str(error)) from error


@dataclass(frozen=True)
class _Part:
    """The networks of a split and their labels."""

    networks: list[int]
    values: list[Any]

    @classmethod
    def read(cls, zoo: Zoo, split: str, column: str) -> _Part:
        networks = zoo.split(split).tolist()
        if not networks:
            raise DataError(f"{zoo.path}, split {split!r}", expected="networks", found="none")
        return cls(networks, column_of(zoo, column, networks))


def stacks_of(
    zoo: Zoo, networks: Sequence[int], batch_size: int = 256
) -> Iterator[dict[str, Tensor]]:
    """Read networks as stacked state dicts, a batch at a time, in order."""
    for part in np.array_split(np.asarray(networks), max(1, -(-len(networks) // batch_size))):
        yield zoo.states(part)
