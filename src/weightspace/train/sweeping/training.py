"""Training one network of a sweep: a pure function of the network, its images and a seed."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from weightspace.errors import require_between
from weightspace.relational.execution import MASKED, fixed_plan
from weightspace.train.sweeping.data import Part, SweepData
from weightspace.train.sweeping.plans import settle_plans

_EVALUATED = 1000  # images at a time


@dataclass(frozen=True)
class Training:
    """How every network of a sweep is trained: the published recipe, of any length.

    SGD with Nesterov momentum, the rate falling as a cosine over the epochs to 0, weight
    decay; no augmentation (You et al. 2020, appendix, have 200 epochs for the MLP).

    Args:
        epochs: of a whole training.
        rate: at the beginning.
        batch: images of an update; an incomplete last batch of an epoch is left out.
        decay: of the weights.
        momentum: of the updates.
        device: where to train.
        fastest: let layers measure how they are computed fastest. Results are then equal up
            to rounding only, instead of to the bit.
    """

    epochs: int = 10
    rate: float = 0.1
    batch: int = 128
    decay: float = 5e-4
    momentum: float = 0.9
    device: str = "cpu"
    fastest: bool = False

    def __post_init__(self) -> None:
        require_between("epochs", self.epochs, 1, 100_000)
        require_between("learning rate", self.rate, 0, 1e3)
        require_between("batch", self.batch, 2, 1_000_000)
        require_between("weight decay", self.decay, 0, 1)
        require_between("momentum", self.momentum, 0, 0.9999)

    def as_dict(self) -> dict[str, Any]:
        """What tells this training from others."""
        return asdict(self)


@dataclass(frozen=True)
class Measured:
    """A network after an epoch.

    Args:
        epoch: how many it has had.
        error: on test images, in percent; NaN once training has diverged.
        validation_error: on validation images.
        loss: mean over the epoch's updates.
    """

    epoch: int
    error: float
    validation_error: float
    loss: float


def train_network(
    make: Callable[[], nn.Module],
    data: SweepData,
    training: Training,
    *,
    seed: int,
    measured: tuple[int, ...],
) -> list[Measured]:
    """Train one network up to the last of some epochs and measure it after each of them.

    Args:
        make: gives the network; its random numbers come from the seed.
        data: what it learns.
        training: how.
        seed: of initialisation and order.
        measured: ascending epochs. If the last is not the training's, it is a part of the
            whole training, equal to it as far as it goes.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = make().to(training.device).train()
    if not training.fastest and training.device == "cpu":
        settle_plans(module, training.batch)
    parts = data.tensors(training.device)
    with _plan(training):
        return [*_epochs(module, parts, training, seed, measured)]


def _epochs(
    module: nn.Module,
    parts: dict[str, Part],
    training: Training,
    seed: int,
    measured: tuple[int, ...],
) -> Iterator[Measured]:
    optimiser = torch.optim.SGD(
        module.parameters(),
        training.rate,
        momentum=training.momentum,
        nesterov=training.momentum > 0,
        weight_decay=training.decay,
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, training.epochs)
    loss = 0.0
    for epoch in range(1, measured[-1] + 1):
        if math.isfinite(loss):
            loss = _epoch(module, parts["train"], optimiser, training, seed * 100_003 + epoch)
            schedule.step()
        if epoch in measured:
            fine = math.isfinite(loss)
            test, validation = (
                _error(module, parts[name]) if fine else math.nan for name in ("test", "validation")
            )
            yield Measured(epoch, test, validation, loss)


def _epoch(
    module: nn.Module, part: Part, optimiser: torch.optim.Optimizer, training: Training, seed: int
) -> float:
    """Train for an epoch; the mean loss, not finite if it was so once."""
    images, labels = part
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    size = min(training.batch, len(images))
    losses = []
    for batch in torch.split(order[: len(images) // size * size].to(images.device), size):
        loss = cross_entropy(module(images[batch]), labels[batch])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(loss.detach())
    return float(torch.stack(losses).mean())


@torch.no_grad()
def _error(module: nn.Module, part: Part) -> float:
    images, labels = part
    module.eval()
    found = torch.cat([module(some).argmax(1) for some in torch.split(images, _EVALUATED)])
    module.train()
    return 100 * float((found != labels).double().mean())


def _plan(training: Training) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext() if training.fastest else fixed_plan(MASKED)
