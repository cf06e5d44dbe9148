"""Classification of networks: which class of images, say, a network represents."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torchmetrics import MetricCollection
from torchmetrics.classification import MulticlassAccuracy

from weightspace.tasks.classes import Classes
from weightspace.tasks.labels import Labels
from weightspace.tasks.prediction import PredictionTask


class ClassificationTask(PredictionTask):
    """Train a metanetwork to classify networks: cross-entropy, and the share of right answers.

    The arguments are those of :class:`~weightspace.tasks.prediction.PredictionTask`; the
    model's outputs are the classes' logits.
    """

    labels_type: ClassVar[type[Labels]] = Classes
    monitor: ClassVar[str] = "val_accuracy"
    mode: ClassVar[Literal["max", "min"]] = "max"
    shown: ClassVar[str] = "accuracy"

    def loss(
        self, outputs: Float[Tensor, "batch classes"], labels: Int[Tensor, " batch"]
    ) -> Tensor:
        """Cross-entropy."""
        return F.cross_entropy(outputs, labels)

    def make_scores(self) -> MetricCollection:
        """``accuracy``, the share of networks classified rightly."""
        accuracy = MulticlassAccuracy(num_classes=self.model.outputs, average="micro")
        return MetricCollection({"accuracy": accuracy})

    def scored(
        self, outputs: Float[Tensor, "batch classes"], labels: Int[Tensor, " batch"]
    ) -> tuple[Tensor, Tensor]:
        """Logits and class indices."""
        return outputs, labels


def confusion_counts(chances: npt.NDArray[Any], truth: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """How many networks of each class were taken for each: rows true, columns predicted.

    Args:
        chances: ``[networks, classes]``.
        truth: ``[networks]``, class indices.

    >>> confusion_counts(np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([0, 1]))
    array([[1, 0],
           [1, 0]])
    """
    from sklearn.metrics import confusion_matrix  # noqa: PLC0415 (slow to import)

    classes = np.arange(chances.shape[1])
    counts: npt.NDArray[np.int64] = confusion_matrix(truth, chances.argmax(axis=1), labels=classes)
    return counts
