"""Regression: a number for each network, such as how well it generalises; ranking by it."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torchmetrics import MetricCollection

from weightspace.tasks.labels import Labels
from weightspace.tasks.prediction import PredictionTask
from weightspace.tasks.quantities import Quantity, Share
from weightspace.tasks.scores import regression_scores


class RegressionTask(PredictionTask):
    """Train a metanetwork to predict a number: squared error of the standardised column.

    Scores are in the column's own unit: Kendall's tau, Spearman's correlation, R2, MSE. The
    arguments are those of :class:`~weightspace.tasks.prediction.PredictionTask`.
    """

    labels_type: ClassVar[type[Labels]] = Quantity
    monitor: ClassVar[str] = "val_loss"
    mode: ClassVar[Literal["max", "min"]] = "min"
    shown: ClassVar[str] = "tau"
    labels: Quantity

    def loss(self, outputs: Float[Tensor, "batch 1"], labels: Float[Tensor, " batch"]) -> Tensor:
        """Mean squared error, in deviations of the training networks."""
        return F.mse_loss(outputs.flatten(), labels)

    def make_scores(self) -> MetricCollection:
        """``tau``, ``spearman``, ``r2`` and ``mse``."""
        return regression_scores()

    def scored(
        self, outputs: Float[Tensor, "batch 1"], labels: Float[Tensor, " batch"]
    ) -> tuple[Tensor, Tensor]:
        """Predicted and measured numbers in the column's own unit."""
        return self.labels.decode(outputs), self.labels.measured(labels)


class ShareRegressionTask(RegressionTask):
    """Train a metanetwork to predict a share from 0 to 1, such as a test accuracy.

    The protocol of generalisation prediction (Unterthiner et al. 2020; Kofinas et al. 2024):
    binary cross-entropy of a sigmoid, and the epoch that ranks validation networks best by
    Kendall's tau.
    """

    labels_type: ClassVar[type[Labels]] = Share
    monitor: ClassVar[str] = "val_tau"
    mode: ClassVar[Literal["max", "min"]] = "max"
    labels: Share

    def loss(self, outputs: Float[Tensor, "batch 1"], labels: Float[Tensor, " batch"]) -> Tensor:
        """Binary cross-entropy; labels between 0 and 1 are soft."""
        return F.binary_cross_entropy_with_logits(outputs.flatten(), labels)
