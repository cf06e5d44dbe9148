"""Training an optimiser on training problems."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import lightning.pytorch as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from weightspace.tasks.batches import mixed_seed
from weightspace.tasks.optimising.features import Memory, Stacked
from weightspace.tasks.optimising.network import OptimiserNetwork
from weightspace.tasks.optimising.problems import Problems, gradients_of

HELD_OUT = 1 << 30
"""Seeds from here on are of problems that no optimiser is trained on."""


class MetaTask(pl.LightningModule):
    """Train an optimiser by gradient descent through its own steps.

    Kofinas et al. 2024, section 4.4, by truncated backpropagation: an episode trains several
    networks from their starts; after every window of steps the mean of their losses is
    differentiated through the window's updates, gradients of the networks themselves being taken
    as given, and the optimiser is updated.

    Args:
        network: the optimiser.
        problems: that it is trained on, one set an episode in turns.
        networks: trained side by side.
        steps: of an episode.
        window: of steps that are differentiated through.
        learning_rate: of the optimiser's own AdamW.
        clip: the largest norm of its gradient.
        seed: of the problems.
    """

    def __init__(
        self,
        network: OptimiserNetwork,
        problems: Sequence[Problems],
        *,
        networks: int = 8,
        steps: int = 50,
        window: int = 10,
        learning_rate: float = 3e-3,
        clip: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.network = network
        self._problems, self._specs = list(problems), [p.spec for p in problems]
        self.networks, self.steps, self.window = networks, steps, window
        self.learning_rate, self.clip, self.seed = learning_rate, clip, seed

    def training_step(self, batch: Tensor, index: int) -> None:
        """One episode."""
        number = int(batch)
        place = number % len(self._problems)
        first = mixed_seed(self.seed, number, self.current_epoch) % HELD_OUT
        seeds = [first + i for i in range(self.networks)]
        problems, total = self._problems[place], 0.0
        theta: Stacked = problems.starts(seeds)
        memory = Memory.of(theta)
        for start in range(0, self.steps, self.window):
            window_losses = []
            for step in range(start, min(start + self.window, self.steps)):
                _, gradients = gradients_of(problems, theta, seeds, step)
                memory = memory.after(gradients)
                updates = self.network(self._specs[place], theta, gradients, memory)
                theta = {name: tensor + updates[name] for name, tensor in theta.items()}
                window_losses.append(problems.losses(theta, seeds, step + 1).mean())
            loss = torch.stack(window_losses).mean()
            self._update(loss)
            total += float(loss.detach())
            theta = {name: tensor.detach() for name, tensor in theta.items()}
        windows = -(-self.steps // self.window)
        self.log("train_loss", total / windows, on_epoch=True, on_step=False, prog_bar=True)

    def _update(self, loss: Tensor) -> None:
        optimiser: Any = self.optimizers()
        optimiser.zero_grad()
        self.manual_backward(loss)
        norm = nn.utils.clip_grad_norm_(self.network.parameters(), self.clip)
        if torch.isfinite(norm):  # an exploding window teaches nothing
            optimiser.step()

    def on_train_epoch_end(self) -> None:
        """Follow the schedule."""
        schedule: Any = self.lr_schedulers()
        schedule.step()

    def validation_step(self, batch: Tensor, index: int) -> None:
        """The mean loss over an episode on networks that are not trained on."""
        place = int(batch) % len(self._problems)
        seeds = [HELD_OUT + 100 * int(batch) + i for i in range(self.networks)]
        curve = learned_curve(self.network, self._problems[place], seeds, self.steps)
        self.log("val_loss", curve.mean(), prog_bar=True, batch_size=1)

    def configure_optimizers(self) -> Any:
        """AdamW with a cosine decay over epochs."""
        optimiser = torch.optim.AdamW(self.network.parameters(), lr=self.learning_rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
            optimiser, int(self.trainer.max_epochs or 1)
        )
        return [optimiser], [schedule]


def episodes(count: int) -> DataLoader[Tensor]:
    """Numbers of episodes, in order."""
    return DataLoader(torch.arange(count), batch_size=None)  # type: ignore[arg-type]


@torch.no_grad()
def learned_curve(
    network: OptimiserNetwork, problems: Problems, seeds: Sequence[int], steps: int
) -> Tensor:
    """The losses of networks that a learned optimiser trains, ``[networks, steps]``.

    The loss of a step is taken before its update, on a batch that was not seen yet.
    """
    theta: Stacked = problems.starts(seeds)
    memory, spec, curve = Memory.of(theta), problems.spec, []
    for step in range(steps):
        losses, gradients = gradients_of(problems, theta, seeds, step)
        curve.append(losses)
        memory = memory.after(gradients)
        updates = network(spec, theta, gradients, memory)
        theta = {name: tensor + updates[name] for name, tensor in theta.items()}
    return torch.stack(curve, dim=1)


MakeOptimizer = Callable[[Iterable[Tensor]], torch.optim.Optimizer]


def optimizer_curve(
    make: MakeOptimizer, problems: Problems, seeds: Sequence[int], steps: int
) -> Tensor:
    """The same for an optimiser that works on every value by itself, such as Adam.

    All networks are its parameters at once, which makes no difference to such an optimiser.
    """
    theta = {name: t.requires_grad_() for name, t in problems.starts(seeds).items()}
    optimizer, curve = make(theta.values()), []
    for step in range(steps):
        losses, gradients = gradients_of(problems, theta, seeds, step)
        curve.append(losses)
        for name, tensor in theta.items():
            tensor.grad = gradients[name]
        optimizer.step()
    return torch.stack(curve, dim=1)
