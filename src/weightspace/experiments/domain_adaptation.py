"""Classifiers of images are changed, in one pass, so that they work on corrupted images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from weightspace.experiments.adaptation_images import AdaptationImages, keep_images
from weightspace.experiments.claim_job import claim_job
from weightspace.experiments.experiment import Experiment, Preset, Row
from weightspace.models import Requirements, make_editor
from weightspace.tasks.adaptation import AdaptationTask, Domain, accuracy_on, score_adaptation
from weightspace.tasks.application import ChainApplication
from weightspace.tasks.batches import batches, read_networks
from weightspace.tasks.network_task import Schedule
from weightspace.train import Budget, fit_task
from weightspace.zoo import Zoo
from weightspace.zoo.classifiers import Classifiers
from weightspace.zoo.corruptions import Corruption
from weightspace.zoo.recipe import make_zoo

NOTHING = "no-adaptation"
"""The method that changes nothing."""

_IMAGES = "images.safetensors"
_SMALL: dict[str, dict[str, Any]] = {
    "dws": {"width": 16},
    "ng-gnn": {"width": 16, "layers": 3, "dropout": 0.0},
    "ng-gnn-linear": {"dropout": 0.0},
    "inr2vec": {},
    "neuron-transformer": {},
    "flat-mlp": {},
    "flat-mlp-augmented": {},
    "flat-mlp-aligned": {},
}
_PUBLISHED_SIZE: dict[str, dict[str, Any]] = {name: {} for name in _SMALL}


def _plan(**changes: Any) -> dict[str, Any]:
    return {
        "images": "cifar10-jpeg",
        "grey": True,
        "side": 8,
        "hidden": [32, 32],
        "networks": 300,
        "updates": 1500,
        "corruptions": {"brightness": 4, "contrast": 4, "inversion": 3, "gaussian_noise": 4},
        "target_images": 8000,
        "validation_images": 1000,
        "test_images": 2000,
        "models": _SMALL,
        "epochs": 12,
        "batch_size": 16,
        "images_a_step": 256,
        "learning_rate": 3e-3,
        "clip": 10.0,
        **changes,
    }


class DomainAdaptation(Experiment):
    """Multilayer perceptrons are trained on images; editors adapt them to corrupted images.

    Navon et al. 2023, section 7.4. For each corruption an editor is trained on the training
    classifiers and corrupted training images; validation classifiers on other images choose the
    epoch; it is judged on classifiers and images that nothing was trained with. All methods
    have the same classifiers, images, steps and optimiser. The score is the mean over
    corruptions.
    """

    name: ClassVar[str] = "domain-adaptation"
    task: ClassVar[str] = (
        "Change the weights of CIFAR-10 classifiers so that they work on corrupted images."
    )
    paper: ClassVar[str] = (
        "Navon et al. 2023, table 3 (CIFAR-10 to corrupted CIFAR-10); other classifiers and "
        "corruptions, so compare orders"
    )
    metric: ClassVar[str] = "accuracy"
    unit: ClassVar[str] = "%"
    published: ClassVar[Mapping[str, str]] = {
        NOTHING: "60.92 ± 0.41",
        "flat-mlp": "64.33 ± 0.36",
        "flat-mlp-augmented": "64.69 ± 0.56",
        "flat-mlp-aligned": "67.66 ± 0.90",
        "inr2vec": "65.69 ± 0.41",
        "neuron-transformer": "61.37 ± 0.13",
        "dws": "71.36 ± 0.38",
    }
    presets: ClassVar[Mapping[str, Preset]] = {
        "cpu": Preset(
            data="300 multilayer perceptrons 64-32-32-10 (210 to train on) trained on JPEG "
            "CIFAR-10, grey, 8 x 8; four corruptions.",
            time="half an hour on two cores",
            settings=_plan(),
        ),
        "full": Preset(
            data="2,000 multilayer perceptrons 768-64-64-10 (1,400 to train on) trained on JPEG "
            "CIFAR-10, colour, 16 x 16; six corruptions.",
            time="a day on a GPU",
            settings=_plan(
                grey=False,
                side=16,
                hidden=[64, 64],
                networks=2000,
                updates=4000,
                corruptions={
                    "brightness": 4,
                    "contrast": 4,
                    "inversion": 3,
                    "gaussian_noise": 4,
                    "rotation": 3,
                    "blur": 4,
                },
                target_images=40000,
                validation_images=5000,
                test_images=10000,
                models=_PUBLISHED_SIZE,
                epochs=100,
                batch_size=32,
                learning_rate=1e-3,
            ),
        ),
    }

    def methods(self, preset: Preset) -> Sequence[str]:
        """The method that changes nothing, and the editors of the preset."""
        return (NOTHING, *preset.settings["models"])

    def prepare(self, preset: Preset, folder: Path) -> None:
        """Train the classifiers, and keep the images in the form that they see."""
        plan = preset.settings
        recipe = Classifiers(
            count=plan["networks"],
            updates=plan["updates"],
            images=plan["images"],
            grey=plan["grey"],
            side=plan["side"],
            hidden=tuple(plan["hidden"]),
            seed=0,
        )
        make_zoo(recipe, folder / "zoo")
        if not (folder / _IMAGES).is_file():
            keep_images(recipe, plan, folder / _IMAGES)

    def run(self, method: str, seed: int, preset: Preset, folder: Path) -> Row:
        """Train one method's editors with one seed, one for each corruption."""
        plan, zoo = preset.settings, Zoo.open(folder / "zoo")
        images = AdaptationImages.read(folder / _IMAGES)
        accuracies: dict[str, float] = {}
        more: Row = {}
        for name, severity in plan["corruptions"].items():
            corruption = Corruption(name, severity)
            domains = {part: images.domain(part, corruption) for part in AdaptationImages.PARTS}
            if method == NOTHING:
                accuracies[name] = _unadapted(zoo, domains["test"])
                continue
            job = folder / "jobs" / f"{method}-{seed}" / name
            accuracies[name], more = _adapted(
                zoo, domains, method=method, seed=seed, plan=plan, job=job
            )
        if method == NOTHING:
            more = {"source_accuracy": 100 * _unadapted(zoo, images.domain("test", None))}
        return {
            "accuracy": 100 * float(np.mean(list(accuracies.values()))),
            **{f"accuracy_{name}": 100 * value for name, value in accuracies.items()},
            **more,
        }


def _rows(zoo: Zoo, split: str) -> list[int]:
    """The classifiers of a split whose training did not diverge."""
    rows = zoo.split(split)
    return [int(row) for row in rows[~zoo.column("diverged")[rows].astype(bool)]]


def _unadapted(zoo: Zoo, domain: Domain) -> float:
    networks = read_networks(zoo, _rows(zoo, "test"))
    return float(accuracy_on(domain, ChainApplication(zoo.spec), networks).mean())


def _adapted(
    zoo: Zoo,
    domains: Mapping[str, Domain],
    *,
    method: str,
    seed: int,
    plan: Mapping[str, Any],
    job: Path,
) -> tuple[float, Row]:
    """Train an editor for one corruption; its accuracy on the test part."""
    options = plan["models"][method]
    claim_job(job, zoo, plan, method, options)
    torch.manual_seed(seed)
    editor = make_editor(method, Requirements.of([zoo.spec]), options=options)
    editor.fit_normalisation(read_networks(zoo, _rows(zoo, "train")))
    apply = ChainApplication(zoo.spec)
    task = AdaptationTask(
        editor,
        apply,
        domains["target"],
        domains["validation"],
        images=plan["images_a_step"],
        schedule=Schedule(learning_rate=plan["learning_rate"]),
        seed=seed,
    )
    size, epochs = plan["batch_size"], plan["epochs"]
    loaders = {}
    for split in ("train", "val", "test"):
        rows, order = _rows(zoo, split), seed if split == "train" else None
        loaders[split] = batches(zoo, rows, torch.zeros(len(rows)), batch_size=size, seed=order)
    fitted = fit_task(
        task,
        loaders["train"],
        loaders["val"],
        job,
        budget=Budget(epochs, size, patience=epochs, clip=plan["clip"]),
        monitor=task.monitor,
        mode=task.mode,
        progress=False,
    )
    scores = score_adaptation(editor, apply, domains["test"], loaders["test"])
    row: Row = {"parameters": editor.parameter_count, "best_epoch": fitted.best_epoch}
    return float(scores.adapted.mean()), row
