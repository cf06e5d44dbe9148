"""Every metanetwork on one zoo of implicit networks: same data, epochs, optimiser and seeds.

    python experiments/metanetworks/run.py digits
    python experiments/metanetworks/run.py mnist --images mnist.npz

A finished training is not done again; an interrupted one goes on. The table is written to
``results/NAME.md`` and ``results/NAME.json``.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
GENTLE = {"translation": 0.1, "rotation": 10.0, "scaling": 0.1, "noise": 0.02}
SMALL_NGT = {
    "width": 32,
    "pair_width": 16,
    "size": 64,
    "heads": 4,
    "layers": 3,
    "node_hidden": 64,
    "pair_hidden": 32,
}
SIZES: dict[str, dict[str, Any]] = {
    "ng-gnn-probes": {},
    "ng-gnn": {},
    "ng-gnn-linear": {"width": 64},
    "ng-t": SMALL_NGT,
    "ng-t-edges": SMALL_NGT,
    "dws": {},
    "nfn-np": {"width": 64},
    "nfn-hnp": {"width": 64},
    "nft": {},
    "scale-gmn": {"width": 32, "layers": 3},
    "inr2vec": {},
    "neuron-transformer": {},
    "flat-mlp": {},
    "flat-mlp-augmented": {},
    "flat-mlp-aligned": {},
    "stat-nn": {},
    "probe-only": {},
}
"""The models, and their options where the published size takes too long on two cores."""


@dataclass(frozen=True)
class Plan:
    """One zoo and the budget of every training on it."""

    hidden: tuple[int, ...]
    steps: int
    refits: int
    epochs: int
    train_images: int
    test_images: int


PLANS = {
    "digits": Plan((16, 16), 100, 2, 8, 1437, 360),
    "mnist": Plan((32, 32), 200, 1, 6, 8571, 1429),
}


def main() -> None:
    """Fit the zoo, train every model with every seed, write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=list(PLANS))
    parser.add_argument("--images", type=Path, help="an .npz of images, for mnist")
    parser.add_argument("--models", nargs="*", default=list(SIZES))
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--work", type=Path, default=HERE / "work", help="zoos and checkpoints")
    options = parser.parse_args()
    from weightspace.zoo.workers import run_tasks

    work = options.work / options.name
    fit_zoo(options.name, options.images, work / "zoo")
    tasks = [
        (options.name, str(work), model, seed) for seed in options.seeds for model in options.models
    ]
    for row in run_tasks(train_one, tasks, workers=options.jobs):
        print(
            f"{row['model']} seed {row['seed']}: {row.get('accuracy', row.get('error'))}",
            flush=True,
        )
        write_table(options.name, work)


def fit_zoo(name: str, images: Path | None, folder: Path) -> None:
    """Fit one network or more to every image, unless that is done."""
    from weightspace.cli.images import read_images
    from weightspace.zoo import InrRecipe, fit_inr_zoo

    plan = PLANS[name]
    chosen = read_images(images).subset(plan.train_images, plan.test_images, seed=0)
    recipe = InrRecipe(hidden=plan.hidden, steps=plan.steps, refits=plan.refits, seed=0)
    fit_inr_zoo(chosen, folder, recipe=recipe)


def train_one(task: tuple[str, str, str, int]) -> dict[str, Any]:
    """Train one model with one seed; its row is kept beside its checkpoints."""
    name, work, model, seed = task
    folder = Path(work) / "models" / f"{model}-{seed}"
    kept = folder / "row.json"
    if kept.is_file():
        return dict(json.loads(kept.read_text()))
    from weightspace.errors import WeightspaceError
    from weightspace.tasks.augmentation import InrAugmentation
    from weightspace.train import Budget
    from weightspace.train.predictor import Settings, train_predictor
    from weightspace.zoo import Zoo

    zoo, plan = Zoo.open(Path(work) / "zoo"), PLANS[name]
    settings = Settings(
        model=model,
        options={"canonical": True, **SIZES[model]},
        augmentation=InrAugmentation(zoo.spec, **GENTLE),
        seed=seed,
        learning_rate=2e-3,
        budget=Budget(epochs=plan.epochs, batch_size=64, patience=plan.epochs),
        progress=False,
    )
    before = time.process_time()
    try:
        outcome = train_predictor(zoo, folder, settings)
    except WeightspaceError as error:
        return {"model": model, "seed": seed, "error": str(error)}
    row = {
        "model": model,
        "seed": seed,
        "accuracy": outcome.tested.scores["accuracy"],
        "parameters": outcome.model.parameter_count,
        "seconds": outcome.fitted.seconds,
        "cpu_seconds": time.process_time() - before,
        "epochs": len(outcome.fitted.history),
    }
    kept.write_text(json.dumps(row))
    return row


def write_table(name: str, work: Path) -> None:
    """Write what is done as Markdown and JSON."""
    rows = [json.loads(path.read_text()) for path in sorted(work.glob("models/*/row.json"))]
    found = []
    for model, sizes in SIZES.items():
        own = [row for row in rows if row["model"] == model]
        if not own:
            continue
        accuracies = [100 * row["accuracy"] for row in own]
        found.append(
            {
                "model": model,
                "options": sizes,
                "accuracy_mean": statistics.mean(accuracies),
                "accuracy_deviation": statistics.stdev(accuracies) if len(own) > 1 else None,
                "accuracies": accuracies,
                "seeds": len(own),
                "parameters": own[0]["parameters"],
                "cpu_seconds": statistics.mean(row["cpu_seconds"] for row in own),
            }
        )
    found.sort(key=lambda row: -row["accuracy_mean"])
    lines = [
        "| model | test accuracy, % | parameters | CPU seconds | seeds |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in found:
        deviation = row["accuracy_deviation"]
        spread = "" if deviation is None else f" ± {deviation:.1f}"
        lines.append(
            f"| {row['model']} | {row['accuracy_mean']:.1f}{spread} | {row['parameters']:,} "
            f"| {row['cpu_seconds']:.0f} | {row['seeds']} |"
        )
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    (results / f"{name}.md").write_text("\n".join(lines) + "\n")
    data = {"plan": PLANS[name].__dict__, "machine": platform.machine(), "models": found}
    (results / f"{name}.json").write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
