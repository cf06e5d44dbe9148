"""The command ``weightspace train``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tyro.conf import Positional

from weightspace.cli.models import parse_options
from weightspace.cli.output import say, show_table, write_json

if TYPE_CHECKING:
    from weightspace.tasks.prediction import PredictionTask
    from weightspace.train.predictor import Outcome
    from weightspace.zoo import Zoo

TaskName = Literal["classify", "regress", "regress-share"]
LoggerName = Literal["csv", "tensorboard", "wandb", "mlflow"]
AUTO = "auto"
RANKED = (AUTO, "ridge", "trees")
"""Models for numbers that are chosen and calibrated by cross-validation."""
CLASSIFIER = "ng-gnn-probes"
HELD: dict[TaskName, str] = {
    "classify": "column with the classes",
    "regress": "column with the numbers",
    "regress-share": "column with the shares",
}


def train(
    zoo: Positional[Path],
    *,
    task: TaskName = "classify",
    target: str = "label",
    model: str = "auto",
    by: str | None = None,
    coverage: float = 0.9,
    option: tuple[str, ...] = (),
    out: Path = Path("trained"),
    epochs: int = 20,
    patience: int = 10,
    batch_size: int = 64,
    learning_rate: float = 2e-3,
    weight_decay: float = 5e-4,
    canonical: bool = True,
    augment: bool = False,
    logger: LoggerName | None = None,
    seed: int = 0,
    json: Path | None = None,
) -> None:
    """Train a model on a zoo's networks; writes OUT/model.safetensors and results.json.

    To predict numbers, a model is chosen by cross-validation, its intervals are calibrated, and
    it is said whether the ranking can be trusted; no splits are needed.

    Networks without a label, and those marked as diverged, are left out. Interrupted, the same
    command goes on after the last whole epoch.

    Args:
        zoo: the zoo's folder, of one or many architectures. A zoo without splits is divided by
            source.
        task: classify; or regress, to predict a number and rank networks by it; or
            regress-share, the same for numbers from 0 to 1 such as accuracies.
        target: the metadata column that holds the classes or numbers.
        model: auto; for numbers also ridge or trees (on statistics of weights); or a name of
            docs/models.md, such as ng-gnn-probes, dws or scale-gmn: `weightspace models` lists
            all. For classes, auto is ng-gnn-probes.
        by: the column of sources, networks of which are never on both sides of a division;
            source or model if there is one.
        coverage: the share of new networks whose number shall lie in its interval.
        option: options of the model, such as width=64 layers=3.
        out: a folder for the model, checkpoints and logs.
        epochs: at the most.
        patience: epochs without a better validation score before training stops.
        batch_size: networks a step.
        learning_rate: at its highest.
        weight_decay: of AdamW.
        canonical: bring networks to canonical signs first, where their activations are odd.
        augment: change the training networks' weights at random (noise; translations,
            rotations and scalings of their images).
        logger: where epochs are logged: csv, tensorboard, wandb or mlflow; if not given, csv,
            and tensorboard where it is installed.
        seed: of initialisation, order, dropout, augmentation and divisions.
        json: also write the results to this file.
    """
    from weightspace.rank.dividing import own_splits
    from weightspace.tasks.augmentation import InrAugmentation
    from weightspace.train import Budget
    from weightspace.train.predictor import Settings, train_predictor
    from weightspace.zoo import Zoo

    _check_model(model, task)
    opened = Zoo.open(zoo)
    _check_target(opened, target, task)
    if task != "classify" and model in RANKED:
        from weightspace.cli.ranking import train_ranking

        results = train_ranking(
            opened,
            target=target,
            model=model,
            by=by,
            coverage=coverage,
            shares=task == "regress-share",
            out=out,
            seed=seed,
        )
        _write(results, out, json)
        return
    settings = Settings(
        model=CLASSIFIER if model == AUTO else model,
        options={"canonical": canonical, **parse_options(option)},
        task=_task(task),
        target=target,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        budget=Budget(epochs=epochs, batch_size=batch_size, patience=patience),
        seed=seed,
        augmentation=InrAugmentation(opened.spec) if augment else None,
        logger=logger,
    )
    splits = None if opened.splits else own_splits(opened, target, by=by, seed=seed)
    outcome = train_predictor(opened, out, settings, splits=splits)
    results = results_of(outcome)
    show_table(
        settings.model,
        ["", ""],
        [[key, value] for key, value in results.items() if not isinstance(value, list)],
    )
    _write(results, out, json)


def _check_model(name: str, task: TaskName) -> None:
    """Refuse a name that no model has, with all that would do for the task.

    Raises:
        ModelError: there is no such model.
    """
    from weightspace.errors import ModelError, similar_name
    from weightspace.models import MODELS

    known = [*((AUTO,) if task == "classify" else RANKED), *MODELS]
    if name not in known:
        hint = similar_name(name, known)
        if name in RANKED:
            hint = "It predicts numbers: --task regress."
        raise ModelError(
            "--model", expected=f"one of {', '.join(known)}", found=repr(name), hint=hint
        )


def _check_target(zoo: Zoo, target: str, task: TaskName) -> None:
    """Refuse a column that is not there, with those that may hold labels.

    Raises:
        DataError: there is no such column.
    """
    from weightspace.errors import DataError, similar_name

    names = zoo.metadata.column_names
    if target not in names:
        raise DataError(
            "--target",
            expected=f"a column of {zoo.path}: {', '.join(names)}",
            found=repr(target),
            hint=similar_name(target, names) or f"Name the {HELD[task]}: --target COLUMN.",
        )


def _write(results: dict[str, Any], out: Path, json: Path | None) -> None:
    write_json(out / "results.json", results)
    if json is not None:
        write_json(json, results)
    say(f"saved as {out / 'model.safetensors'}; `weightspace predict` reads new networks with it")


def results_of(outcome: Outcome) -> dict[str, Any]:
    """The numbers of a training, as they go into JSON."""
    return {
        **{f"test_{name}": score for name, score in outcome.tested.scores.items()},
        outcome.task.monitor: outcome.fitted.best_score,
        "parameters": outcome.model.parameter_count,
        "train_seconds": outcome.fitted.seconds,
        "seed": outcome.seed,
        "epochs": len(outcome.fitted.history),
        "best_epoch": outcome.fitted.best_epoch,
        **{f"{name}_networks": len(part) for name, part in outcome.parts.items()},
        "left_out_networks": sum(part.left_out for part in outcome.parts.values()),
        "history": outcome.fitted.history,
    }


def _task(name: TaskName) -> type[PredictionTask]:
    from weightspace.tasks.classification import ClassificationTask
    from weightspace.tasks.regression import RegressionTask, ShareRegressionTask

    tasks: dict[TaskName, type[PredictionTask]] = {
        "classify": ClassificationTask,
        "regress": RegressionTask,
        "regress-share": ShareRegressionTask,
    }
    return tasks[name]
