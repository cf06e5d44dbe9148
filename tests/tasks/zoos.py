"""Small zoos and trainings that the tests of tasks share."""

from __future__ import annotations

from pathlib import Path

import lightning.pytorch as pl
import torch

from weightspace.graph import GraphSpec, GroupElement, NeuralGraph, SymmetryGroup
from weightspace.zoo import Zoo, ZooWriter

SPLITS = {"train": range(24), "val": range(24, 32), "test": range(32, 40)}


def random_zoo(folder: Path, spec: GraphSpec, scale: float = 1.0) -> Zoo:
    """Forty networks with normal weights."""
    generator = torch.Generator().manual_seed(0)
    stacked = {
        p.name: scale * torch.randn(40, *p.shape, generator=generator) for p in spec.parameters
    }
    writer = ZooWriter(folder, specs=[spec], recipe={"name": "random"})
    writer.write_part(0, stacked, [{"number": i} for i in range(40)])
    return writer.finish(splits={name: list(rows) for name, rows in SPLITS.items()})


def moved(networks: NeuralGraph, seed: int = 0) -> tuple[NeuralGraph, GroupElement]:
    """Networks with their neurons in another order, and the element that did it."""
    generator = torch.Generator().manual_seed(seed)
    element = SymmetryGroup(networks.spec).sample(generator, kinds=("permutation",))
    return element.act_graph(networks), element


class StopAt(pl.Callback):
    """What Ctrl-C does, in the middle of an epoch."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def on_train_batch_start(self, trainer, module, batch, index) -> None:  # type: ignore[no-untyped-def]
        if trainer.current_epoch == self.epoch and index == 1:
            raise KeyboardInterrupt


def unreached(task: pl.LightningModule, loss: torch.Tensor) -> list[str]:
    """The parameters that a loss has no gradient in."""
    loss.backward()
    return [
        name
        for name, parameter in task.named_parameters()
        if parameter.grad is None or not bool(parameter.grad.abs().max() > 0)
    ]
