"""The recipe that makes a zoo of implicit networks from a set of images."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from weightspace.errors import LARGEST_SEED, ModelError, require_between
from weightspace.zoo.images import ImageSet
from weightspace.zoo.inr_fit import LEARNING_RATE, fit_inrs
from weightspace.zoo.progress import network_progress
from weightspace.zoo.siren import PUBLISHED, SirenVariant, siren_spec
from weightspace.zoo.splits import split_by_group
from weightspace.zoo.store import Zoo
from weightspace.zoo.workers import available_cores, run_tasks
from weightspace.zoo.writer import ZooWriter

CHUNK = 32
PART = 256
"""Networks that share an optimiser, and networks in a part of the zoo. Fixed, and named in the
recipe, because they decide how sums are rounded."""

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class InrRecipe:
    """How a zoo of SIRENs is made, but for the images.

    Args:
        hidden: the hidden layers' sizes.
        variant: initialisation, frequencies and offset.
        steps: the most updates a network gets.
        learning_rate: of Adam.
        target_psnr: a network that has reached this stops.
        refits: how many networks each image gets, from different seeds.
        seed: decides the validation images and every network's own seed.
        validation: the share of the training images whose networks are for validation.

    Raises:
        ModelError: several refits are asked of one shared initialisation.
    """

    hidden: tuple[int, ...] = (32, 32)
    variant: SirenVariant = PUBLISHED
    steps: int = 100
    learning_rate: float = LEARNING_RATE
    target_psnr: float | None = None
    refits: int = 1
    seed: int = 0
    validation: float = 0.1

    def __post_init__(self) -> None:
        require_between("refits", self.refits, 1, 1_000_000)
        require_between("steps", self.steps, 1, 1_000_000_000)
        require_between("learning rate", self.learning_rate, 1e-12, 1e3)
        require_between("seed", self.seed, 0, LARGEST_SEED)
        require_between("validation", self.validation, 0.0, 0.99)
        if self.target_psnr is not None:
            require_between("target PSNR", self.target_psnr, 0.0, 1000.0)
        if not self.hidden:
            raise ModelError("hidden", expected="at least one hidden layer", found="none")
        if self.refits > 1 and self.variant.shared_init is not None:
            raise ModelError(
                "refits",
                expected="1 with a shared initialisation",
                found=str(self.refits),
                hint="Refits from one initialisation would be the same network again.",
            )

    def as_dict(self, images: ImageSet) -> dict[str, Any]:
        """Everything needed to make the zoo again, as plain data."""
        return {
            "name": "inr",
            **asdict(self),
            "chunk": CHUNK,
            "part": PART,
            "images": {
                "name": images.name,
                "sha256": images.sha256,
                "shape": images.shape,
                "train": len(images.train),
                "test": len(images.test),
                "class_names": images.class_names,
            },
        }


def fit_inr_zoo(
    images: ImageSet, out: Path | str, *, recipe: InrRecipe | None = None, workers: int = 0
) -> Zoo:
    """Fit SIRENs to every image of a set and keep them as a zoo.

    The rows of the zoo have the columns ``source`` (the image's number), ``split``, ``label``,
    ``refit``, ``seed``, ``psnr`` and ``steps``. Splits go by image, so that refits of one
    image are never in two: test images stay test images, validation images are drawn from the
    training images. Interrupted or killed, it goes on where it stopped when called again, and
    on one machine the zoo is the same to the bit.

    Args:
        images: the images and their labels.
        out: the zoo's folder.
        recipe: how to fit; the default recipe if not given.
        workers: how many processes; with 0 one for each core.

    Raises:
        FileError: the folder holds something else, or a zoo of another recipe or images.
        DataError: there are too few images to split.
        WeightspaceError: a worker was killed.
    """
    recipe = recipe or InrRecipe()
    plan = _Plan(images, recipe)
    spec = siren_spec((2, *recipe.hidden, images.shape[2]), recipe.variant)
    writer = ZooWriter(out, specs=[spec], recipe=recipe.as_dict(images), parts=plan.parts)
    todo = [part for part in range(plan.parts) if not writer.has_part(part)]
    if todo:
        processes = min(workers or available_cores(), len(todo))
        fits = run_tasks(_fit_part, plan.tasks(todo), workers=processes)
        with network_progress() as progress, contextlib.closing(fits):
            done = sum(plan.size(part) for part in range(plan.parts)) - sum(map(plan.size, todo))
            bar = progress.add_task("fitting", total=plan.networks, completed=done)
            for fitted in fits:
                state = {name: torch.from_numpy(array) for name, array in fitted.state.items()}
                writer.write_part(fitted.part, state, plan.rows(fitted))
                progress.advance(bar, plan.size(fitted.part))
    return writer.finish(split_column="split")


def network_seed(seed: int, source: int, refit: int) -> int:
    """The seed of one network: the same on every machine, whatever else is in the zoo.

    >>> network_seed(0, 7, 1) == network_seed(0, 7, 1) != network_seed(0, 7, 2)
    True
    """
    digest = hashlib.sha256(f"{seed}/{source}/{refit}".encode()).digest()
    return int.from_bytes(digest[:4], "little")  # torch's generator takes in 32 bits


@dataclass(frozen=True)
class _Task:
    """A part to be fitted, in a form that can be sent to another process."""

    part: int
    images: Array
    seeds: list[int]
    recipe: InrRecipe


@dataclass(frozen=True)
class _FittedPart:
    part: int
    state: dict[str, Array]
    psnr: Array
    steps: Array


def _fit_part(task: _Task) -> _FittedPart:
    fitted = fit_inrs(
        torch.from_numpy(task.images),
        seeds=task.seeds,
        hidden=task.recipe.hidden,
        variant=task.recipe.variant,
        steps=task.recipe.steps,
        learning_rate=task.recipe.learning_rate,
        target_psnr=task.recipe.target_psnr,
        chunk=CHUNK,
    )
    return _FittedPart(
        task.part,
        {name: tensor.numpy() for name, tensor in fitted.state.items()},
        fitted.psnr.numpy(),
        fitted.steps.numpy(),
    )


class _Plan:
    """Which network is where: images in their order, the refits of one side by side."""

    def __init__(self, images: ImageSet, recipe: InrRecipe) -> None:
        self._images = images
        self._recipe = recipe
        self._sources = torch.cat([images.train_sources, images.test_sources]).tolist()
        self._labels = torch.cat([images.train_labels, images.test_labels]).tolist()
        self._splits = _splits(images, recipe)
        self.networks = len(self._sources) * recipe.refits
        self.parts = -(-self.networks // PART)

    def size(self, part: int) -> int:
        """How many networks a part has."""
        return len(self._range(part))

    def tasks(self, parts: list[int]) -> Iterator[_Task]:
        """What is to be fitted."""
        for part in parts:
            places, refits = self._places(part)
            seeds = [self._seed(p, r) for p, r in zip(places, refits, strict=True)]
            yield _Task(part, self._take(places), seeds, self._recipe)

    def rows(self, fitted: _FittedPart) -> list[dict[str, Any]]:
        """The metadata of a part's networks."""
        places, refits = self._places(fitted.part)
        return [
            {
                "source": self._sources[place],
                "split": self._splits[place],
                "label": self._labels[place],
                "refit": refit,
                "seed": self._seed(place, refit),
                "psnr": float(psnr),
                "steps": int(steps),
            }
            for place, refit, psnr, steps in zip(
                places, refits, fitted.psnr, fitted.steps, strict=True
            )
        ]

    def _range(self, part: int) -> range:
        return range(part * PART, min((part + 1) * PART, self.networks))

    def _places(self, part: int) -> tuple[list[int], list[int]]:
        """The image and the refit of each network of a part."""
        refits = self._recipe.refits
        networks = self._range(part)
        return [network // refits for network in networks], [n % refits for n in networks]

    def _seed(self, place: int, refit: int) -> int:
        return network_seed(self._recipe.seed, self._sources[place], refit)

    def _take(self, places: list[int]) -> Array:
        train, test = self._images.train, self._images.test
        count = len(train)
        parts = [train[p] if p < count else test[p - count] for p in places]
        return torch.stack(parts).numpy()


def _splits(images: ImageSet, recipe: InrRecipe) -> list[str]:
    """The split of each image."""
    names = np.array(["train"] * len(images.train) + ["test"] * len(images.test), dtype=object)
    if recipe.validation:
        shares = {"train": 1 - recipe.validation, "val": recipe.validation}
        chosen = split_by_group(
            range(len(images.train)), shares, recipe.seed, labels=images.train_labels
        )
        names[chosen["val"]] = "val"
    return [str(name) for name in names]
