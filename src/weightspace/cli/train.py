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

TaskName = Literal["classify", "regress", "regress-share"]


def train(
    zoo: Positional[Path],
    *,
    task: TaskName = "classify",
    target: str = "label",
    model: str = "ng-gnn-probes",
    option: tuple[str, ...] = (),
    out: Path = Path("trained"),
    epochs: int = 20,
    patience: int = 10,
    batch_size: int = 64,
    learning_rate: float = 2e-3,
    weight_decay: float = 5e-4,
    canonical: bool = True,
    augment: bool = False,
    seed: int = 0,
    json: Path | None = None,
) -> None:
    """Train a model on a zoo's networks; writes OUT/model.safetensors and results.json.

    Networks without a label, and those marked as diverged, are left out. Interrupted, the same
    command goes on after the last whole epoch.

    Args:
        zoo: the zoo's folder, with splits train, val and test; of one or many architectures.
        task: classify; or regress, to predict a number and rank networks by it; or
            regress-share, the same for numbers from 0 to 1 such as accuracies.
        target: the metadata column that holds the classes or numbers.
        model: a name of docs/models.md, such as ng-gnn-probes, ng-t-edges, dws, nfn-np,
            scale-gmn or flat-mlp; `weightspace models` lists all.
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
        seed: of initialisation, order, dropout and augmentation.
        json: also write the results to this file.
    """
    from weightspace.tasks.augmentation import InrAugmentation
    from weightspace.train import Budget
    from weightspace.train.predictor import Settings, train_predictor
    from weightspace.zoo import Zoo

    opened = Zoo.open(zoo)
    settings = Settings(
        model=model,
        options={"canonical": canonical, **parse_options(option)},
        task=_task(task),
        target=target,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        budget=Budget(epochs=epochs, batch_size=batch_size, patience=patience),
        seed=seed,
        augmentation=InrAugmentation(opened.spec) if augment else None,
    )
    outcome = train_predictor(opened, out, settings)
    results = results_of(outcome)
    show_table(
        model,
        ["", ""],
        [[key, value] for key, value in results.items() if not isinstance(value, list)],
    )
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
