"""Learning to predict something of networks: what classification and regression share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torchmetrics import MetricCollection

from weightspace.graph import Batch
from weightspace.models import Predictor
from weightspace.tasks.batches import Augmentation, NetworkBatch, augmented
from weightspace.tasks.labels import Labels
from weightspace.tasks.network_task import NetworkTask, Schedule


class PredictionTask(NetworkTask, ABC):
    """Train a metanetwork to predict a label of each network.

    A subclass decides the kind of labels, the loss, the scores, and which of them chooses the
    best epoch.

    Args:
        model: the metanetwork.
        labels: what its outputs mean.
        augmentation: changes the weights of training networks, or None.
        schedule: how fast parameters move.
        seed: of dropout and augmentation.
    """

    labels_type: ClassVar[type[Labels]]
    """The kind of labels that it learns."""
    shown: ClassVar[str]
    """The score that the progress bar shows."""

    def __init__(
        self,
        model: Predictor,
        labels: Labels,
        *,
        augmentation: Augmentation | None = None,
        schedule: Schedule | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(schedule=schedule, seed=seed)
        self.model = model
        self.labels = labels
        self.augmentation = augmentation
        self.train_scores = self.make_scores().clone(prefix="train_")
        self.val_scores = self.make_scores().clone(prefix="val_")

    @abstractmethod
    def loss(
        self, outputs: Float[Tensor, "batch outputs"], labels: Shaped[Tensor, " batch"]
    ) -> Tensor:
        """What training makes small."""

    @abstractmethod
    def make_scores(self) -> MetricCollection:
        """New scores by name; they are given what :meth:`scored` returns."""

    @abstractmethod
    def scored(
        self, outputs: Float[Tensor, "batch outputs"], labels: Shaped[Tensor, " batch"]
    ) -> tuple[Tensor, Tensor]:
        """Predictions and labels as the scores compare them."""

    def scores(
        self, outputs: Float[Tensor, "networks outputs"], labels: Shaped[Tensor, " networks"]
    ) -> dict[str, float]:
        """The scores of outputs, all together."""
        metrics = self.make_scores()
        metrics.update(*self.scored(outputs, labels))
        return {name: float(value) for name, value in metrics.compute().items()}

    def training_step(self, batch: NetworkBatch, index: int) -> Tensor:
        """The loss of a batch of networks."""
        networks = batch.networks
        if self.augmentation is not None:
            generator = torch.Generator(networks.device)
            generator.manual_seed(self.step_seed(index, 2))
            networks = augmented(networks, self.augmentation, generator)
        return self._step("train", networks, batch.labels, self.train_scores)

    def validation_step(self, batch: NetworkBatch, index: int) -> None:
        """Loss and scores on networks that are not trained on."""
        self._step("val", batch.networks, batch.labels, self.val_scores)

    def _step(self, part: str, networks: Batch, labels: Tensor, scores: MetricCollection) -> Tensor:
        outputs = self.model(networks)
        loss = self.loss(outputs, labels)
        scores.update(*self.scored(outputs.detach(), labels))
        size = len(labels)
        self.log(f"{part}_loss", loss, on_step=False, on_epoch=True, batch_size=size)
        for name, score in scores.items():
            bar = name == f"{part}_{self.shown}"
            self.log(name, score, on_step=False, on_epoch=True, prog_bar=bar, batch_size=size)
        return loss


class Said(NamedTuple):
    """What a model says of networks, on the CPU."""

    outputs: Float[Tensor, "networks outputs"]
    embeddings: Float[Tensor, "networks d"]


@torch.no_grad()
def predict(model: Predictor, networks: Iterable[Batch]) -> Said:
    """Read networks with a trained model.

    Args:
        model: the metanetwork; it is read in evaluation mode.
        networks: a batch at a time; they are moved to the model's device.
    """
    training = model.training
    model.eval()
    device = next(model.parameters()).device
    embeddings = [model.embed(batch.to(device)) for batch in networks]
    together = torch.cat(embeddings)
    outputs = model.head(together)
    model.train(training)
    return Said(outputs.cpu(), together.cpu())
