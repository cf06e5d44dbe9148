"""Merging two networks trained from different starts, with and without alignment."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save
from torch import Tensor, nn

from weightspace.align import (
    Average,
    align_activations,
    align_weights,
    loss_path,
    merge_states,
    repair_statistics,
)
from weightspace.experiments.experiment import Experiment, Preset, Row
from weightspace.graph import State
from weightspace.importers.flowing import FlowReader
from weightspace.zoo.data_folder import named_images
from weightspace.zoo.images import ImageSet
from weightspace.zoo.store_files import write_file


class Merging(Experiment):
    """Two networks are trained from different seeds, and their mean is taken.

    Ainsworth et al. 2023 ("Git Re-Basin"), section 4: after alignment the loss hardly rises on the
    straight line between them. ``barrier`` is how far it does, on test images, above the line
    between the ends; ``accuracy`` is the mean network's. Statistics of batch norms are estimated
    again wherever a mixture is judged (``repaired``), or mixed like weights.
    """

    paper: ClassVar[str] = "Ainsworth et al. 2023, figure 2 (wider networks, more epochs)"
    metric: ClassVar[str] = "barrier"
    higher_is_better: ClassVar[bool] = False

    def methods(self, preset: Preset) -> Sequence[str]:
        """As they are, by weights, by activations; the last with statistics estimated again."""
        return ("as-they-are", "weights", "activations", "weights-repaired")

    @abstractmethod
    def module(self, plan: Mapping[str, Any]) -> nn.Module:
        """An untrained network."""

    def prepare(self, preset: Preset, folder: Path) -> None:
        """Train two networks for every seed."""
        images = None
        for seed in preset.seeds:
            for start in (2 * seed, 2 * seed + 1):
                kept = folder / f"network-{start}.safetensors"
                if not kept.is_file():
                    images = images or named_images(preset.settings["images"])
                    state = self._trained(start, preset.settings, images)
                    kept.parent.mkdir(parents=True, exist_ok=True)
                    write_file(kept, save({n: t.contiguous() for n, t in state.items()}))

    def _trained(self, start: int, plan: Mapping[str, Any], images: ImageSet) -> State:
        torch.manual_seed(start)
        module = self.module(plan)
        x, y = images.train[: plan["train"]].movedim(-1, 1), images.train_labels[: plan["train"]]
        optimiser = torch.optim.Adam(module.parameters(), plan["learning_rate"])
        steps = plan["epochs"] * -(-len(x) // plan["batch_size"])
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
        for _ in range(plan["epochs"]):
            for rows in torch.split(torch.randperm(len(x)), plan["batch_size"]):
                optimiser.zero_grad()
                loss = F.cross_entropy(module(x[rows]), y[rows])
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                schedule.step()
        return module.state_dict()

    def run(self, method: str, seed: int, preset: Preset, folder: Path) -> Row:
        """Align one pair in one way, and walk from one to the other."""
        plan = preset.settings
        images = named_images(plan["images"])
        one, other = (load_file(folder / f"network-{2 * seed + i}.safetensors") for i in (0, 1))
        module = self.module(plan).eval()
        inputs = images.train[: plan["examples"]].movedim(-1, 1)
        reader = FlowReader(module, inputs)
        if method.startswith("weights"):
            other = align_weights(reader.spec, one, other).aligned
        elif method == "activations":
            other = align_activations(reader, one, other).aligned
        test = images.test[: plan["test"]].movedim(-1, 1), images.test_labels[: plan["test"]]

        def logits(state: State) -> Tensor:
            module.load_state_dict(dict(state))
            if method.endswith("repaired"):
                repair_statistics(module, [inputs])
            with torch.no_grad():
                result: Tensor = module(test[0])
            return result

        path = loss_path(lambda s: float(F.cross_entropy(logits(s), test[1])), one, other)
        middle = logits(merge_states([one, other], Average()))
        return {
            "barrier": path.barrier,
            "loss": path.losses[0],
            "loss_between": path.middle,
            "accuracy": 100 * float((middle.argmax(1) == test[1]).float().mean()),
        }


class MlpMerging(Merging):
    """Of multilayer perceptrons."""

    name: ClassVar[str] = "merging-mlp"
    task: ClassVar[str] = "Take the mean of two multilayer perceptrons trained from two seeds."
    published: ClassVar[Mapping[str, str]] = {"weights": "about 0"}
    presets: ClassVar[Mapping[str, Preset]] = {
        "cpu": Preset(
            data="MLPs 784-512-512-10 with ReLU on 20,000 images of MNIST.",
            time="five minutes on two cores",
            settings={
                "images": "mnist",
                "widths": [512, 512],
                "train": 20_000,
                "test": 5_000,
                "examples": 1_000,
                "epochs": 8,
                "batch_size": 128,
                "learning_rate": 1e-3,
            },
        ),
        "full": Preset(
            data="MLPs 784-512-512-512-10 with ReLU on MNIST.",
            time="minutes on a GPU",
            settings={
                "images": "mnist",
                "widths": [512, 512, 512],
                "train": 60_000,
                "test": 10_000,
                "examples": 5_000,
                "epochs": 25,
                "batch_size": 512,
                "learning_rate": 1e-3,
            },
        ),
    }

    def module(self, plan: Mapping[str, Any]) -> nn.Module:
        """See :class:`Merging`."""
        sizes = [784, *plan["widths"]]
        layers: list[nn.Module] = [nn.Flatten()]
        for before, after in itertools.pairwise(sizes):
            layers += [nn.Linear(before, after), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(sizes[-1], 10))


class CnnMerging(Merging):
    """Of small convolutional networks with batch norms."""

    name: ClassVar[str] = "merging-cnn"
    task: ClassVar[str] = "Take the mean of two small CNNs trained from two seeds."
    published: ClassVar[Mapping[str, str]] = {}
    presets: ClassVar[Mapping[str, Preset]] = {
        "cpu": Preset(
            data="CNNs of 3 x 64 filters with batch norms on 10,000 images of MNIST.",
            time="a quarter of an hour on two cores",
            settings={
                "images": "mnist",
                "widths": [64, 64, 64],
                "train": 10_000,
                "test": 2_000,
                "examples": 1_000,
                "epochs": 6,
                "batch_size": 64,
                "learning_rate": 3e-3,
            },
        ),
        "full": Preset(
            data="CNNs of 3 x 256 filters with batch norms on MNIST.",
            time="an hour on a GPU",
            settings={
                "images": "mnist",
                "widths": [256, 256, 256],
                "train": 60_000,
                "test": 10_000,
                "examples": 5_000,
                "epochs": 25,
                "batch_size": 128,
                "learning_rate": 1e-3,
            },
        ),
    }

    def module(self, plan: Mapping[str, Any]) -> nn.Module:
        """See :class:`Merging`."""
        sizes = [1, *plan["widths"]]
        layers: list[nn.Module] = []
        for before, after in itertools.pairwise(sizes):
            layers += [
                nn.Conv2d(before, after, 3, stride=2, padding=1),
                nn.BatchNorm2d(after),
                nn.ReLU(),
            ]
        return nn.Sequential(
            *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(sizes[-1], 10)
        )
