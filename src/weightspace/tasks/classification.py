"""Classification of networks: which class of images, say, a network represents."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import lightning.pytorch as pl
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torchmetrics.classification import MulticlassAccuracy

from weightspace.graph import GraphSpec, NeuralGraph
from weightspace.models import Predictor
from weightspace.tasks.batches import NetworkBatch, mixed_seed

Augmentation = Callable[[dict[str, Tensor], torch.Generator], dict[str, Tensor]]


class ClassificationTask(pl.LightningModule):
    """Train a metanetwork to classify networks.

    Cross-entropy, AdamW with amsgrad, a linear warm-up and a cosine decay, as in the
    experiments of Kofinas et al. 2024 (learning rate 1e-3, weight decay 5e-4).

    Args:
        model: the metanetwork; its outputs are the classes' logits.
        spec: the networks' structure.
        augmentation: changes the weights of training networks, or None.
        learning_rate: at its highest.
        weight_decay: of AdamW.
        warmup: the fraction of all steps in which the learning rate rises.
        seed: of dropout and augmentation.
    """

    def __init__(
        self,
        model: Predictor,
        spec: GraphSpec,
        *,
        augmentation: Augmentation | None = None,
        learning_rate: float = 1e-3,
        weight_decay: float = 5e-4,
        warmup: float = 0.1,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.model = model
        self.spec = spec
        self.augmentation = augmentation
        self.learning_rate, self.weight_decay, self.warmup = learning_rate, weight_decay, warmup
        self.seed = seed
        self.train_accuracy, self.val_accuracy = (
            MulticlassAccuracy(num_classes=model.outputs, average="micro") for _ in range(2)
        )

    def on_train_batch_start(self, batch: NetworkBatch, batch_idx: int) -> None:
        """Seed dropout by the step, so that a resumed run repeats an undisturbed one."""
        torch.manual_seed(mixed_seed(self.seed, self.current_epoch, batch_idx, 1))

    def training_step(self, batch: NetworkBatch, index: int) -> Tensor:
        """The loss of a batch of networks."""
        stacked = batch.stacked
        if self.augmentation is not None:
            seed = mixed_seed(self.seed, self.current_epoch, index, 2)
            stacked = self.augmentation(stacked, torch.Generator().manual_seed(seed))
        logits = self.model(NeuralGraph.from_stacked(self.spec, stacked))
        loss = F.cross_entropy(logits, batch.labels)
        self.train_accuracy(logits, batch.labels)
        size = len(batch.labels)
        self.log("train_loss", loss, on_step=False, on_epoch=True, batch_size=size)
        self.log(
            "train_accuracy",
            self.train_accuracy,
            on_step=False,
            on_epoch=True,
            prog_bar=True,
            batch_size=size,
        )
        return loss

    def validation_step(self, batch: NetworkBatch, index: int) -> None:
        """Loss and accuracy on networks that are not trained on."""
        logits = self.model(NeuralGraph.from_stacked(self.spec, batch.stacked))
        self.val_accuracy(logits, batch.labels)
        size = len(batch.labels)
        self.log("val_loss", F.cross_entropy(logits, batch.labels), prog_bar=True, batch_size=size)
        self.log("val_accuracy", self.val_accuracy, prog_bar=True, batch_size=size)

    def configure_optimizers(self) -> Any:
        """AdamW with a warm-up and a cosine decay over all steps."""
        optimiser = torch.optim.AdamW(
            self.model.parameters(),
            lr=self.learning_rate,
            weight_decay=self.weight_decay,
            amsgrad=True,
            fused=True,
        )
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimiser,
            max_lr=self.learning_rate,
            pct_start=self.warmup,
            cycle_momentum=False,
            total_steps=int(self.trainer.estimated_stepping_batches),
        )
        return [optimiser], [{"scheduler": schedule, "interval": "step"}]


class Classified(NamedTuple):
    """What a model says of networks: ``[networks, classes]`` and ``[networks, d]``."""

    probabilities: Float[Tensor, "networks classes"]
    embeddings: Float[Tensor, "networks d"]


@torch.no_grad()
def classify(model: Predictor, spec: GraphSpec, stacks: Iterable[dict[str, Tensor]]) -> Classified:
    """Classify networks with a trained model.

    Args:
        model: the metanetwork.
        spec: the networks' structure.
        stacks: stacked state dicts, a batch at a time.
    """
    training = model.training
    model.eval()
    embeddings = [model.embed(NeuralGraph.from_stacked(spec, stacked)) for stacked in stacks]
    together = torch.cat(embeddings)
    probabilities = model.head(together).softmax(dim=1)
    model.train(training)
    return Classified(probabilities, together)
