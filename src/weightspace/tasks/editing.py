"""Editing of networks: a changed network whose image is an edited image."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torchmetrics import MeanMetric

from weightspace.errors import DataError
from weightspace.graph import Batch
from weightspace.models import Editor
from weightspace.tasks.batches import NetworkBatch
from weightspace.tasks.network_task import NetworkTask, Schedule, moved_to

Render = Callable[[Any], Tensor]
"""From networks to their images, such as :class:`weightspace.tasks.rendering.ImageRenderer`."""


class EditingTask(NetworkTask):
    """Train an editor so that the edited networks' images are given targets.

    Zhou et al. 2023, section 4.2, and Kofinas et al. 2024, section 4.2: the loss is the mean
    squared error between the image of the edited network and the target, an edited image of
    the data set (:mod:`weightspace.tasks.image_edits`). A batch's labels are the targets,
    ``[networks, height, width, channels]``. Because an editor is equivariant and rendering
    invariant, the loss does not depend on the order of the networks' neurons.

    Args:
        editor: changes the networks.
        render: from networks to images, differentiable.
        schedule: how fast parameters move.
        seed: of dropout.
    """

    monitor = "val_mse"
    mode = "min"

    def __init__(
        self,
        editor: Editor,
        render: Render,
        *,
        schedule: Schedule | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(schedule=schedule, seed=seed)
        self.editor = editor
        self.render = render
        self.val_mse = MeanMetric()

    def errors(self, batch: NetworkBatch) -> Float[Tensor, " networks"]:
        """The mean squared error of each network's image after the edit.

        Raises:
            DataError: the targets are not of the images' shape.
        """
        return image_errors(self.render(self.editor(batch.networks)), batch.labels)

    def training_step(self, batch: NetworkBatch, index: int) -> Tensor:
        """The loss of a batch of networks."""
        loss = self.errors(batch).mean()
        size = len(batch.labels)
        self.log("train_mse", loss, on_step=False, on_epoch=True, prog_bar=True, batch_size=size)
        return loss

    def validation_step(self, batch: NetworkBatch, index: int) -> None:
        """The error on networks that are not trained on."""
        errors = self.errors(batch)
        self.val_mse(errors)
        self.log("val_mse", self.val_mse, prog_bar=True, batch_size=len(errors))


@dataclass(frozen=True)
class EditScores:
    """How near edited networks come to their targets.

    Args:
        edited: the mean squared error of each network's image to its target.
        unedited: the same of the networks as they were given.
    """

    edited: Float[Tensor, " networks"]
    unedited: Float[Tensor, " networks"]

    @property
    def mse(self) -> float:
        """The mean over networks."""
        return float(self.edited.mean())

    @property
    def unedited_mse(self) -> float:
        """The mean over networks, had nothing been done."""
        return float(self.unedited.mean())

    @property
    def gain(self) -> float:
        """How many times smaller the edit makes the error."""
        return self.unedited_mse / self.mse


@torch.no_grad()
def score_edits(
    editor: Editor | None, render: Render, batches: Iterable[NetworkBatch]
) -> EditScores:
    """Compare edited and unedited networks with their targets.

    Args:
        editor: a trained one; None changes nothing.
        render: from networks to images.
        batches: labelled with the targets.

    Raises:
        DataError: the targets are not of the images' shape, or there are no batches.
    """
    edited, unedited = [], []
    for given in batches:
        batch = given if editor is None else moved_to(given, editor)
        unedited.append(image_errors(render(batch.networks), batch.labels))
        if editor is not None:
            images = edited_images(editor, render, batch.networks)
            edited.append(image_errors(images, batch.labels))
    if not unedited:
        raise DataError("networks to be edited", expected="at least one", found="none")
    return EditScores(torch.cat(edited or unedited).cpu(), torch.cat(unedited).cpu())


@torch.no_grad()
def edited_images(editor: Editor, render: Render, networks: Batch) -> Tensor:
    """The images of networks after a trained editor's edit."""
    training = editor.training
    editor.eval()
    images = render(editor(networks))
    editor.train(training)
    return images


def image_errors(images: Tensor, targets: Tensor) -> Float[Tensor, " networks"]:
    """The mean squared error of each image.

    Raises:
        DataError: the shapes differ.
    """
    if images.shape != targets.shape:
        raise DataError(
            "targets",
            expected=f"images of shape {tuple(images.shape)}",
            found=f"shape {tuple(targets.shape)}",
            hint="Render at the targets' resolution.",
        )
    return (images - targets).square().flatten(1).mean(dim=1)
