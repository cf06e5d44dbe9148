"""Self-supervised embeddings of networks: two views of one network lie together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torchmetrics import MeanMetric

from weightspace.errors import DataError, ModelError
from weightspace.graph import Batch, MixedGraph
from weightspace.models import Predictor
from weightspace.tasks.batches import Augmentation, NetworkBatch, augmented, mixed_seed
from weightspace.tasks.network_task import NetworkTask, Schedule, moved_to

Array = npt.NDArray[Any]

_VALIDATION = -1
"""Stands for the epoch in the seeds of validation views, which are the same in every epoch."""


class ContrastiveTask(NetworkTask):
    """Train a metanetwork so that it tells networks apart whatever view it has of them.

    Navon et al. 2023, section 7, after SimCLR (Chen et al. 2020): every network is seen in two
    random views (noise on the weights, masked weights: see
    :class:`~weightspace.tasks.augmentation.InrAugmentation`), both are embedded, a small MLP
    projects the embeddings, and each view must find its partner among all others. Labels are
    not used; :func:`linear_probe` judges what the embedding knows of them.

    Args:
        model: its outputs are the embedding.
        views: makes a random view of each network.
        temperature: by which similarities are divided.
        schedule: how fast parameters move.
        seed: of dropout and views.

    Raises:
        ModelError: the temperature is not positive.
    """

    monitor = "val_loss"
    mode = "min"

    def __init__(
        self,
        model: Predictor,
        views: Augmentation,
        *,
        temperature: float = 0.1,
        schedule: Schedule | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(schedule=schedule, seed=seed)
        if not temperature > 0:
            raise ModelError("temperature", expected="a positive number", found=str(temperature))
        self.model, self.views, self.temperature = model, views, temperature
        self.projection = nn.Sequential(
            nn.Linear(model.outputs, model.outputs),
            nn.ReLU(),
            nn.Linear(model.outputs, model.outputs),
        )
        self.val_loss = MeanMetric()

    def loss(self, networks: Batch, seed: int) -> Tensor:
        """How well views find their partners; the views are those of a seed."""
        generator = torch.Generator(networks.device).manual_seed(seed)
        seen = [augmented(networks, self.views, generator) for _ in range(2)]
        projected = self.projection(self.model(_together(seen)))
        one, two = projected.chunk(2)
        return info_nce(one, two, temperature=self.temperature)

    def training_step(self, batch: NetworkBatch, index: int) -> Tensor:
        """The loss of a batch of networks."""
        loss = self.loss(batch.networks, self.step_seed(index, 2))
        size = len(batch.rows)
        self.log("train_loss", loss, on_step=False, on_epoch=True, prog_bar=True, batch_size=size)
        return loss

    def validation_step(self, batch: NetworkBatch, index: int) -> None:
        """The loss on networks that are not trained on, in the same views every time."""
        size = len(batch.rows)
        self.val_loss(self.loss(batch.networks, mixed_seed(self.seed, _VALIDATION, index)), size)
        self.log("val_loss", self.val_loss, prog_bar=True, batch_size=size)


def info_nce(
    one: Float[Tensor, "n d"], two: Float[Tensor, "n d"], *, temperature: float = 0.1
) -> Tensor:
    """The loss of SimCLR: each view must find its partner among the 2n - 1 others.

    Chen et al. 2020, equation 1: ``-log exp(s(i, j) / t) / sum_{k != i} exp(s(i, k) / t)``
    with the cosine similarity s, averaged over all 2n views.

    Args:
        one: a view of each network.
        two: another view of each, in the same order.
        temperature: t.

    >>> views = torch.eye(3)
    >>> info_nce(views, views) < info_nce(views, views.flip(0))
    tensor(True)
    """
    views = F.normalize(torch.cat([one, two]), dim=1)
    itself = torch.eye(len(views), dtype=torch.bool, device=views.device)
    similarity = (views @ views.T / temperature).masked_fill(itself, float("-inf"))
    partners = torch.arange(len(views), device=views.device).roll(len(one))
    return F.cross_entropy(similarity, partners)


@torch.no_grad()
def embed(model: Predictor, batches: Iterable[NetworkBatch]) -> tuple[Array, Array]:
    """Embed networks with a trained model, as they are.

    Args:
        model: its outputs are the embedding.
        batches: the networks and what is to be read from the embedding.

    Returns:
        The embeddings ``[networks, d]`` and the labels.
    """
    training = model.training
    model.eval()
    moved = (moved_to(batch, model) for batch in batches)
    pairs = [(model(batch.networks).double(), batch.labels) for batch in moved]
    model.train(training)
    embeddings, labels = (torch.cat(parts).cpu().numpy() for parts in zip(*pairs, strict=True))
    return embeddings, labels


class Probed(NamedTuple):
    """What a linear map reads from embeddings: ``[networks, targets]``, and its mean error."""

    predictions: Array
    mse: float


@dataclass(frozen=True)
class LinearProbe:
    """An ordinary least squares map from frozen embeddings to targets.

    Args:
        embeddings: ``[networks, d]`` of the training networks.
        targets: ``[networks, targets]``.

    Raises:
        DataError: the embeddings are not finite, or not one for each target.

    >>> x = np.arange(12.0).reshape(6, 2) ** 2
    >>> round(LinearProbe(x, 3 * x + 1)(x, 3 * x + 1).mse, 9)
    0.0
    """

    embeddings: Array
    targets: Array

    def __post_init__(self) -> None:
        _require_pairs(self.embeddings, self.targets)

    def __call__(self, embeddings: Array, targets: Array) -> Probed:
        """Read other networks' embeddings: the mean squared error over networks and targets."""
        from sklearn.linear_model import LinearRegression  # noqa: PLC0415 (slow to import)

        _require_pairs(embeddings, targets)
        fitted = LinearRegression().fit(self.embeddings, self.targets)
        predictions = np.asarray(fitted.predict(embeddings))
        return Probed(predictions, float(np.square(predictions - targets).mean()))


def _require_pairs(embeddings: Array, targets: Array) -> None:
    if len(embeddings) != len(targets):
        raise DataError(
            "targets of a probe",
            expected=f"one for each of {len(embeddings)} embeddings",
            found=str(len(targets)),
        )
    if not np.isfinite(embeddings).all():
        raise DataError("embeddings", expected="finite numbers", found="NaN or infinity")


def _together(views: Sequence[Batch]) -> MixedGraph:
    """Views as one batch, one after another, so that they are read at once.

    Networks come in the order of the views' parts: the same in all views, which is enough.
    """
    return MixedGraph.of([part for view in views for part in MixedGraph.of(view).parts])
