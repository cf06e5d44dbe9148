"""What tasks of all kinds share: seeds of every step, and the optimiser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import lightning.pytorch as pl
import torch
from torch import nn

from weightspace.errors import require_between
from weightspace.tasks.batches import NetworkBatch, mixed_seed


@dataclass(frozen=True)
class Schedule:
    """How fast parameters move.

    Args:
        learning_rate: at its highest.
        weight_decay: of AdamW.
        warmup: the fraction of all steps in which the learning rate rises.
    """

    learning_rate: float = 1e-3
    weight_decay: float = 5e-4
    warmup: float = 0.1

    def __post_init__(self) -> None:
        require_between("learning rate", self.learning_rate, 1e-12, 1e6)
        require_between("weight decay", self.weight_decay, 0.0, 1e6)
        require_between("warmup", self.warmup, 0.0, 1.0)


class NetworkTask(pl.LightningModule):
    """Train a metanetwork, step by step the same whether or not it is interrupted.

    AdamW with amsgrad, a linear warm-up and a cosine decay, as in the experiments of Kofinas et
    al. 2024. A subclass has the loss and the scores.

    Args:
        schedule: how fast parameters move.
        seed: of dropout and of whatever else is random in a step.
    """

    monitor: ClassVar[str]
    """The logged score of validation networks that chooses the epoch."""
    mode: ClassVar[Literal["max", "min"]]
    """Whether that score is to be high or low."""

    def __init__(self, *, schedule: Schedule | None = None, seed: int = 0) -> None:
        super().__init__()
        self.schedule = schedule or Schedule()
        self.seed = seed

    def on_train_batch_start(self, batch: NetworkBatch, batch_idx: int) -> None:
        """Seed dropout by the step, so that a resumed run repeats an undisturbed one."""
        torch.manual_seed(self.step_seed(batch_idx, 1))

    def step_seed(self, index: int, purpose: int) -> int:
        """A seed for one purpose in one training step."""
        return mixed_seed(self.seed, self.current_epoch, index, purpose)

    def configure_optimizers(self) -> Any:
        """AdamW with a warm-up and a cosine decay over all steps."""
        optimiser = torch.optim.AdamW(
            self.parameters(),
            lr=self.schedule.learning_rate,
            weight_decay=self.schedule.weight_decay,
            amsgrad=True,
            fused=True,
        )
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimiser,
            max_lr=self.schedule.learning_rate,
            pct_start=self.schedule.warmup,
            cycle_momentum=False,
            total_steps=int(self.trainer.estimated_stepping_batches),
        )
        return [optimiser], [{"scheduler": schedule, "interval": "step"}]


def moved_to(batch: NetworkBatch, module: nn.Module) -> NetworkBatch:
    """A batch on the device of a module's parameters; Lightning does this in training."""
    device = next(module.parameters()).device
    networks, rows, labels = batch
    return NetworkBatch(networks.to(device), rows.to(device), labels.to(device))
