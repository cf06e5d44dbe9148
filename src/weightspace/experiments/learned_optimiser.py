"""Learning to optimise: a graph optimiser against tuned Adam and SGD."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weightspace.experiments.experiment import Experiment, Preset, Row
from weightspace.tasks.optimising import (
    HELD_OUT,
    MetaTask,
    OptimiserNetwork,
    Problems,
    episodes,
    learned_curve,
    optimizer_curve,
)
from weightspace.train import Budget, fit_task
from weightspace.zoo.data_folder import named_images

RATES = tuple(10 ** (exponent / 4) for exponent in range(-16, 2))
"""The learning rates among which Adam and SGD are tuned, four a decade from 1e-4 to 1.8."""
MOMENTA = (0.0, 0.9)


class LearnedOptimiser(Experiment):
    """An optimiser is trained on small tasks and tested on others.

    Kofinas et al. 2024, section 4.4 (its code was never published). Networks are small CNNs on
    Fashion-MNIST whose classes' names are exchanged at random; an episode starts from PyTorch's
    initialisation. Tested on networks, class names and batches that were not trained on:
    Fashion-MNIST's test images (``loss``, the last tenth of the steps), MNIST (``mnist``), and a
    CNN of twice the width on CIFAR-10 in grey (``wider``). Adam and SGD are favoured: their
    learning rate (SGD's also its momentum) is the best on other networks and batches of the very
    images that they are tested on, for each of the three; the learned optimisers see none of them.
    """

    name: ClassVar[str] = "learned-optimiser"
    task: ClassVar[str] = "Train networks by an optimiser that was itself trained."
    paper: ClassVar[str] = "Kofinas et al. 2024, section 4.4; figures only"
    metric: ClassVar[str] = "loss"
    higher_is_better: ClassVar[bool] = False
    published: ClassVar[Mapping[str, str]] = {"graph": "below Adam"}
    presets: ClassVar[Mapping[str, Preset]] = {
        "cpu": Preset(
            data="CNNs of 8 and 16 filters on 14x14 Fashion-MNIST, 64 images a step.",
            time="half an hour on two cores",
            settings={
                "filters": [8, 16],
                "pool": 2,
                "steps": 100,
                "episode": 50,
                "window": 10,
                "episodes": 12,
                "epochs": 8,
                "networks": 6,
                "test_networks": 12,
                "width": 16,
                "layers": 2,
            },
        ),
        "full": Preset(
            data="CNNs of 16 and 32 filters on Fashion-MNIST, 64 images a step.",
            time="a day on a GPU",
            settings={
                "filters": [16, 32],
                "pool": 1,
                "steps": 1000,
                "episode": 400,
                "window": 20,
                "episodes": 50,
                "epochs": 100,
                "networks": 16,
                "test_networks": 32,
                "width": 32,
                "layers": 3,
            },
        ),
    }

    def methods(self, preset: Preset) -> Sequence[str]:
        """The graph optimiser, the same without messages, and the usual ones."""
        return ("graph", "parameter-wise", "adam", "sgd")

    def prepare(self, preset: Preset, folder: Path) -> None:
        """Images are read by every job."""
        folder.mkdir(parents=True, exist_ok=True)

    def run(self, method: str, seed: int, preset: Preset, folder: Path) -> Row:
        """Train or tune one optimiser and test it."""
        plan = preset.settings
        tests = _tests(plan)
        seeds = [HELD_OUT + 10_000 * (seed + 1) + i for i in range(plan["test_networks"])]
        if method in ("graph", "parameter-wise"):
            network = self._trained(method, seed, plan, folder)
            curves = {
                name: learned_curve(network, problems, seeds, plan["steps"])
                for name, problems in tests.items()
            }
        else:
            curves = {
                name: _tuned_curve(method, seed, plan, problems, seeds)
                for name, problems in tests.items()
            }
        tail = max(1, plan["steps"] // 10)
        row: Row = {name: float(curve[:, -tail:].mean()) for name, curve in curves.items()}
        row["mean_loss"] = float(curves["loss"].mean())
        return row

    def _trained(
        self, method: str, seed: int, plan: Mapping[str, Any], folder: Path
    ) -> OptimiserNetwork:
        torch.manual_seed(seed)
        layers = plan["layers"] if method == "graph" else 0
        network = OptimiserNetwork(width=plan["width"], layers=layers)
        task = MetaTask(
            network,
            [_problems(plan, "fashion-mnist", plan["filters"], test=False)],
            networks=plan["networks"],
            steps=plan["episode"],
            window=plan["window"],
            seed=seed,
        )
        fit_task(
            task,
            episodes(plan["episodes"]),
            episodes(2),
            folder / "jobs" / f"{method}-{seed}",
            budget=Budget(epochs=plan["epochs"], patience=plan["epochs"], clip=None),
            monitor="val_loss",
            mode="min",
            progress=False,
        )
        return network.eval()


def _cnn(filters: Sequence[int]) -> nn.Module:
    first, second = filters
    return nn.Sequential(
        nn.Conv2d(1, first, 3, stride=2),
        nn.ReLU(),
        nn.Conv2d(first, second, 3, stride=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(second, 10),
    )


def _problems(plan: Mapping[str, Any], images: str, filters: Sequence[int], test: bool) -> Problems:
    """Grey images, made smaller by averaging."""
    problems = Problems.of(_cnn(filters), named_images(images), count=10_000, test=test)
    grey: Tensor = problems.images.mean(1, keepdim=True)
    return replace(problems, images=F.avg_pool2d(grey, plan["pool"]))


def _tests(plan: Mapping[str, Any]) -> dict[str, Problems]:
    wider = [2 * width for width in plan["filters"]]
    return {
        "loss": _problems(plan, "fashion-mnist", plan["filters"], test=True),
        "mnist": _problems(plan, "mnist", plan["filters"], test=True),
        "wider": _problems(plan, "cifar10-lossless", wider, test=False),
    }


def _tuned_curve(
    method: str, seed: int, plan: Mapping[str, Any], problems: Problems, seeds: Sequence[int]
) -> Tensor:
    """The losses with the settings that are best on other networks of the same problems."""
    tuning = [HELD_OUT - 10_000 * (seed + 1) + i for i in range(4)]
    makers = [
        partial(torch.optim.Adam, lr=rate)
        if method == "adam"
        else partial(torch.optim.SGD, lr=rate, momentum=momentum)
        for rate in RATES
        for momentum in (MOMENTA if method == "sgd" else (0.0,))
    ]
    tail = max(1, plan["steps"] // 10)
    scores = [
        float(
            optimizer_curve(make, problems, tuning, plan["steps"])[:, -tail:].mean().nan_to_num(1e9)
        )
        for make in makers
    ]
    best = makers[scores.index(min(scores))]
    return optimizer_curve(best, problems, seeds, plan["steps"])
