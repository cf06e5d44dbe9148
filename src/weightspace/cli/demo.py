"""The command ``weightspace demo``: from images to networks to models that read networks."""

from __future__ import annotations

import json
import platform
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import arg

from weightspace.cli.output import say, show_table, write_json
from weightspace.cli.train import results_of

if TYPE_CHECKING:
    from weightspace.train import Budget
    from weightspace.train.predictor import Array, Outcome
    from weightspace.zoo import ImageSet, InrRecipe, Zoo

PICTURES = 12
DEMO_MODELS = ("ng-gnn-probes", "ng-gnn", "flat-mlp")
GENTLE: dict[str, Any] = {"translation": 0.1, "rotation": 10.0, "scaling": 0.1, "noise": 0.02}
"""The augmentation of training networks: as far as a digit keeps its meaning."""

SMALL, MOST_IMAGES, SMALL_IMAGE = 2_000, 10_000, 256
"""Sets up to SMALL images get several networks an image; of larger ones MOST_IMAGES are taken
unless told otherwise, so that the demo ends within the hour on two cores."""


def demo(
    *,
    images: Annotated[Path | None, arg(metavar="FILE.npz")] = None,
    out: Path = Path("demo-out"),
    train_images: int | None = None,
    test_images: int | None = None,
    refits: int | None = None,
    hidden: tuple[int, ...] | None = None,
    steps: int | None = None,
    epochs: int = 16,
    batch_size: int = 64,
    learning_rate: float = 2e-3,
    seed: int = 0,
) -> None:
    """Fit a network to every image, learn from the networks' weights, and report.

    Writes OUT/results.json, OUT/report.html, the zoo and the trained models. Interrupted or
    killed, the same command goes on where it stopped.

    Args:
        images: an .npz file with x_train, y_train, x_test, y_test; scikit-learn's digits if
            not given. Of large sets, 10,000 images are taken unless counts are given.
        out: the folder for everything.
        train_images: how many training images to take.
        test_images: how many test images to take.
        refits: networks for each image; 5 for small sets, 1 for large ones if not given.
        hidden: sizes of the networks' hidden layers; 16 16 for images of at most 256 pixels,
            32 32 for larger ones if not given.
        steps: updates of each network; 100 for small images, 200 for larger ones if not given.
        epochs: of each model, at the most.
        batch_size: networks a step.
        learning_rate: of each model, at its highest.
        seed: of everything random.
    """
    from weightspace.tasks.augmentation import InrAugmentation
    from weightspace.train import Budget
    from weightspace.train.predictor import Settings, train_predictor
    from weightspace.zoo import InrRecipe

    chosen = _choose(images, train_images, test_images, seed)
    count = len(chosen.train) + len(chosen.test)
    small = chosen.shape[0] * chosen.shape[1] <= SMALL_IMAGE
    recipe = InrRecipe(
        hidden=hidden if hidden is not None else ((16, 16) if small else (32, 32)),
        steps=steps if steps is not None else (100 if small else 200),
        refits=refits if refits is not None else (5 if count <= SMALL else 1),
        seed=seed,
    )
    say(f"{count} images of {chosen.name}, {recipe.refits} network(s) each")
    fit = _fit(chosen, out / "zoo", recipe)
    budget = Budget(epochs=epochs, batch_size=batch_size, patience=epochs)
    outcomes: dict[str, Outcome] = {}
    for place, name in enumerate(DEMO_MODELS):
        say(f"training {name} ({place + 1} of {len(DEMO_MODELS)})")
        settings = Settings(
            model=name,
            options={"canonical": True},
            augmentation=InrAugmentation(fit.zoo.spec, **GENTLE),
            seed=seed,
            learning_rate=learning_rate,
            budget=budget,
        )
        outcomes[name] = train_predictor(fit.zoo, out / "models" / name, settings)
    _write(out, chosen, fit, outcomes, _settings(recipe, budget, learning_rate))


@dataclass(frozen=True)
class _Fit:
    """The zoo and the seconds its fitting took; None if it was interrupted on the way."""

    zoo: Zoo
    seconds: float | None

    @property
    def rate(self) -> float | None:
        return len(self.zoo) / self.seconds if self.seconds else None


def _choose(path: Path | None, train: int | None, test: int | None, seed: int) -> ImageSet:
    from weightspace.cli.images import read_images

    images = read_images(path)
    count = len(images.train) + len(images.test)
    if train is None and test is None and count > MOST_IMAGES:
        share = MOST_IMAGES / count
        train, test = round(len(images.train) * share), round(len(images.test) * share)
        say(
            f"taking {train} training and {test} test images of {count}; "
            "choose others with --train-images and --test-images"
        )
    if train is None and test is None:
        return images
    return images.subset(
        len(images.train) if train is None else train,
        len(images.test) if test is None else test,
        seed=seed,
    )


def _fit(images: ImageSet, folder: Path, recipe: InrRecipe) -> _Fit:
    """Fit the zoo, and keep the time beside it for when the demo is run again."""
    from weightspace.zoo import fit_inr_zoo

    clock = folder.parent / "fit.json"
    fresh = not folder.exists()
    before = time.monotonic()
    zoo = fit_inr_zoo(images, folder, recipe=recipe)
    if fresh:
        write_json(clock, {"networks": len(zoo), "seconds": time.monotonic() - before})
    return _Fit(zoo, _seconds(clock))


def _seconds(clock: Path) -> float | None:
    """The time kept beside a zoo, if there is one that can be read."""
    try:
        return float(json.loads(clock.read_text())["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(
    out: Path, images: ImageSet, fit: _Fit, outcomes: dict[str, Outcome], settings: dict[str, str]
) -> None:
    """Write results.json and report.html, and print the table."""
    from weightspace.models import MODELS
    from weightspace.report import DemoReport, ModelReport, write_demo_report
    from weightspace.tasks.classification import confusion_counts

    models = {name: results_of(outcome) for name, outcome in outcomes.items()}
    psnr = fit.zoo.column("psnr")
    write_json(
        out / "results.json",
        {
            "dataset": images.name,
            "models": models,
            "fit": {
                "networks": len(fit.zoo),
                "seconds": fit.seconds,
                "networks_per_second": fit.rate,
                "psnr_db": float(psnr.mean()),
                "psnr_db_min": float(psnr.min()),
            },
            "splits": dict(fit.zoo.splits),
            "settings": settings,
        },
    )
    reports = [
        ModelReport(
            name=name,
            summary=MODELS[name].summary,
            test_accuracy=outcome.tested.scores["accuracy"],
            parameters=outcome.model.parameter_count,
            train_seconds=outcome.fitted.seconds,
            seed=models[name]["seed"],
            epochs=len(outcome.fitted.history),
            history=outcome.fitted.history,
            confusion=confusion_counts(outcome.tested.predictions, outcome.tested.truth),
            embeddings=outcome.tested.embeddings,
            labels=outcome.tested.truth,
        )
        for name, outcome in outcomes.items()
    ]
    originals, rendered, enlarged = _pictures(images, fit.zoo)
    write_demo_report(
        out / "report.html",
        DemoReport(
            dataset=images.name,
            classes=images.class_names,
            originals=originals,
            rendered=rendered,
            enlarged=enlarged,
            psnr=psnr,
            networks=len(fit.zoo),
            fit_seconds=fit.seconds or float("nan"),
            networks_per_second=fit.rate or float("nan"),
            models=reports,
            settings=settings,
        ),
    )
    show_table(
        "networks classified from their weights",
        ["model", "test accuracy", "parameters", "seconds"],
        [
            [
                name,
                f"{row['test_accuracy']:.1%}",
                f"{row['parameters']:,}",
                f"{row['train_seconds']:.0f}",
            ]
            for name, row in models.items()
        ],
    )
    say(
        f"report: {out / 'report.html'}\nresults: {out / 'results.json'}\n"
        f"models: {out / 'models'}/*/model.safetensors, for `weightspace predict`"
    )


def _pictures(images: ImageSet, zoo: Zoo) -> tuple[Array, Array, Array]:
    """Test images, their networks rendered at the images' size, and enlarged."""
    from weightspace.zoo import render

    place = {int(source): i for i, source in enumerate(images.test_sources.tolist())}
    networks = zoo.split("test")[zoo.column("refit")[zoo.split("test")] == 0][:PICTURES]
    spots = [place[int(source)] for source in zoo.column("source")[networks]]
    height, width, _ = images.shape
    scale = max(1, 96 // max(height, width))
    state = zoo.states(networks)
    rendered, enlarged = (
        render(zoo.spec, state, height * k, width * k).clamp(0, 1).numpy() for k in (1, scale)
    )
    return images.test[spots].numpy(), rendered, enlarged


def _settings(recipe: InrRecipe, budget: Budget, learning_rate: float) -> dict[str, str]:
    """What was run, on what, for the report."""
    import torch

    from weightspace import __version__

    return {
        "command": " ".join(["weightspace", *sys.argv[1:]]),
        "networks": f"SIREN, hidden layers {recipe.hidden}, {recipe.steps} steps of Adam "
        f"at {recipe.learning_rate:g}, {recipe.refits} for each image, variant {recipe.variant}",
        "training": f"at most {budget.epochs} epochs, batches of {budget.batch_size}, AdamW at "
        f"{learning_rate:g}, canonical signs, augmentation {GENTLE}",
        "seed": str(recipe.seed),
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads, {platform.system()}",
        "versions": f"weightspace {__version__}, torch {torch.__version__}",
    }
