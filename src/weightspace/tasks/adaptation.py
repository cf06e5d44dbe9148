"""Domain adaptation: changing classifiers' weights so that they work on other images."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torchmetrics import MeanMetric

from weightspace.errors import DataError, require_between
from weightspace.graph import Batch
from weightspace.models import Editor
from weightspace.tasks.application import Application
from weightspace.tasks.batches import NetworkBatch
from weightspace.tasks.network_task import NetworkTask, Schedule, moved_to

_AT_ONCE = 512
"""Images that networks are judged on at a time."""


@dataclass(frozen=True, eq=False)
class Domain:
    """Labelled images of one kind.

    Args:
        images: floating-point values.
        labels: a class index for each.

    Raises:
        DataError: there are no images, or not one label for each.
    """

    images: Float[Tensor, "images *shape"]
    labels: Int[Tensor, " images"]

    def __post_init__(self) -> None:
        if not len(self.images) or self.labels.shape != self.images.shape[:1]:
            raise DataError(
                "domain",
                expected="images and a label for each",
                found=f"{len(self.images)} images, labels of shape {tuple(self.labels.shape)}",
            )

    def __len__(self) -> int:
        return len(self.images)


class AdaptationTask(NetworkTask):
    """Train an editor that adapts classifiers to another domain, in one forward pass.

    Navon et al. 2023, section 7: the editor reads a classifier that was trained on the source
    domain and changes its weights; the loss is the cross-entropy of the changed classifier on
    labelled images of the target domain. It is trained on many classifiers, and adapts new ones
    without images. Labels of batches are not used.

    Args:
        editor: changes the classifiers.
        apply: runs them, see :mod:`weightspace.tasks.application`.
        target: images of the target domain to train with.
        validation: further images of it, by which the epoch is chosen.
        images: how many images a step takes, the same for all classifiers of the batch.
        schedule: how fast parameters move.
        seed: of dropout and of the choice of images.
    """

    monitor = "val_accuracy"
    mode = "max"

    def __init__(
        self,
        editor: Editor,
        apply: Application,
        target: Domain,
        validation: Domain,
        *,
        images: int = 128,
        schedule: Schedule | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(schedule=schedule, seed=seed)
        require_between("images a step", images, 1, 1_000_000)
        self.editor, self.apply_to, self.images = editor, apply, min(images, len(target))
        for name, domain in (("target", target), ("validation", validation)):
            # Not part of checkpoints, but moved to the device with the rest.
            self.register_buffer(f"{name}_images", domain.images, persistent=False)
            self.register_buffer(f"{name}_labels", domain.labels, persistent=False)
        self.val_accuracy = MeanMetric()

    def loss(self, batch: NetworkBatch, chosen: Int[Tensor, " images"]) -> Tensor:
        """The cross-entropy of the adapted classifiers on some target images."""
        images, labels = self.get_buffer("target_images"), self.get_buffer("target_labels")
        logits = self.apply_to(self.editor(batch.networks), images[chosen])
        return F.cross_entropy(
            logits.flatten(0, 1), labels[chosen].repeat(len(logits)).to(logits.device)
        )

    def training_step(self, batch: NetworkBatch, index: int) -> Tensor:
        """The loss of a batch of classifiers on a random batch of images."""
        generator = torch.Generator().manual_seed(self.step_seed(index, 2))
        count = len(self.get_buffer("target_images"))
        chosen = torch.randperm(count, generator=generator)[: self.images]
        loss = self.loss(batch, chosen.to(self.device))
        size = len(batch.rows)
        self.log("train_loss", loss, on_step=False, on_epoch=True, prog_bar=True, batch_size=size)
        return loss

    def validation_step(self, batch: NetworkBatch, index: int) -> None:
        """Accuracy of classifiers that are not trained on, on images that are not either."""
        images, labels = (self.get_buffer(f"validation_{name}") for name in ("images", "labels"))
        domain = Domain(images, labels)
        accuracies = accuracy_on(domain, self.apply_to, self.editor(batch.networks))
        self.val_accuracy(accuracies)
        self.log("val_accuracy", self.val_accuracy, prog_bar=True, batch_size=len(accuracies))


@dataclass(frozen=True)
class AdaptationScores:
    """How well classifiers do on a domain.

    Args:
        adapted: the accuracy of each classifier after the edit.
        unadapted: the accuracy of each as it was given.
    """

    adapted: Float[Tensor, " networks"]
    unadapted: Float[Tensor, " networks"]


@torch.no_grad()
def score_adaptation(
    editor: Editor, apply: Application, domain: Domain, batches: Iterable[NetworkBatch]
) -> AdaptationScores:
    """Compare adapted and unadapted classifiers on a domain.

    Args:
        editor: a trained one.
        apply: runs classifiers.
        domain: images that were not trained with.
        batches: classifiers that were not trained with.

    Raises:
        DataError: there are no batches.
    """
    training = editor.training
    editor.eval()
    adapted, unadapted = [], []
    for given in batches:
        networks = moved_to(given, editor).networks
        adapted.append(accuracy_on(domain, apply, editor(networks)).cpu())
        unadapted.append(accuracy_on(domain, apply, networks).cpu())
    editor.train(training)
    if not adapted:
        raise DataError("classifiers to be adapted", expected="at least one", found="none")
    return AdaptationScores(torch.cat(adapted), torch.cat(unadapted))


@torch.no_grad()
def accuracy_on(domain: Domain, apply: Application, networks: Batch) -> Float[Tensor, " networks"]:
    """The share of a domain's images that each classifier gets right."""
    device = networks.device
    right = [
        (apply(networks, images.to(device)).argmax(dim=-1) == labels.to(device)).sum(dim=1)
        for images, labels in zip(
            torch.split(domain.images, _AT_ONCE), torch.split(domain.labels, _AT_ONCE), strict=True
        )
    ]
    return torch.stack(right).sum(dim=0) / len(domain)
