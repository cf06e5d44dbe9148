"""Training problems that an optimiser learns on and is judged by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weightspace.graph import GraphSpec
from weightspace.importers import module_spec
from weightspace.tasks.batches import mixed_seed
from weightspace.tasks.optimising.features import Stacked
from weightspace.zoo import ImageSet


@dataclass(frozen=True, eq=False)
class Problems:
    """Many networks of one architecture, each trained from its own start on its own batches.

    A network's problem is a function of its seed: where it starts, which labels the classes
    have (their names are exchanged at random), and what images its batches hold.

    Args:
        module: the architecture; without batch norms, as it runs for all networks at once.
        images: ``[n, channels, height, width]``.
        labels: ``[n]``.
        classes: how many there are.
        batch_size: images a step.
    """

    module: nn.Module
    images: Tensor
    labels: Tensor
    classes: int
    batch_size: int = 64

    @classmethod
    def of(
        cls, module: nn.Module, images: ImageSet, *, count: int | None = None, test: bool = False
    ) -> Problems:
        """Problems of a set's training or test images."""
        x, y = (images.test, images.test_labels) if test else (images.train, images.train_labels)
        return cls(module, x[:count].movedim(-1, 1), y[:count], len(images.class_names))

    @property
    def spec(self) -> GraphSpec:
        """The architecture's structure."""
        return module_spec(self.module, self.images[:1])

    def starts(self, seeds: Sequence[int]) -> dict[str, Tensor]:
        """The first weights of each network, as PyTorch draws them, stacked."""
        states = []
        with torch.random.fork_rng(devices=[]):
            for seed in seeds:
                torch.manual_seed(mixed_seed(seed, 1))
                for part in self.module.modules():
                    reset: Any = getattr(part, "reset_parameters", None)
                    if callable(reset):
                        reset()
                states.append({n: t.detach().clone() for n, t in self.module.state_dict().items()})
        return {name: torch.stack([state[name] for state in states]) for name in states[0]}

    def losses(self, parameters: Stacked, seeds: Sequence[int], step: int) -> Tensor:
        """Each network's cross-entropy on its batch of a step, ``[networks]``."""
        batches = [self._batch(seed, step) for seed in seeds]
        images = torch.stack([x for x, _ in batches])
        labels = torch.stack([y for _, y in batches])
        logits = torch.func.vmap(self._run)(dict(parameters), images)
        return F.cross_entropy(logits.transpose(1, 2), labels, reduction="none").mean(1)

    def _run(self, state: Stacked, images: Tensor) -> Tensor:
        result: Tensor = torch.func.functional_call(self.module, dict(state), (images,))
        return result

    def _batch(self, seed: int, step: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(mixed_seed(seed, 2, step))
        chosen = torch.randint(len(self.images), (self.batch_size,), generator=generator)
        names = torch.randperm(
            self.classes, generator=torch.Generator().manual_seed(mixed_seed(seed, 3))
        )
        return self.images[chosen], names[self.labels[chosen]]


def gradients_of(
    problems: Problems, parameters: Stacked, seeds: Sequence[int], step: int
) -> tuple[Tensor, dict[str, Tensor]]:
    """Each network's loss and its gradient, by parameter."""
    leaves = {name: tensor.detach().requires_grad_() for name, tensor in parameters.items()}
    with torch.enable_grad():
        losses = problems.losses(leaves, seeds, step)
        found = torch.autograd.grad(losses.sum(), list(leaves.values()))
    return losses.detach(), dict(zip(leaves, found, strict=True))
