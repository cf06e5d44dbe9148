"""Editing of implicit networks so that their images change: what such experiments share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import torch

from weightspace.experiments.claim_job import claim_job
from weightspace.experiments.experiment import Experiment, Preset, Row
from weightspace.experiments.image_zoo import ImageZoo
from weightspace.models import Editor, Requirements, load_model, make_editor, save_model
from weightspace.tasks.editing import EditingTask, EditScores, edited_images, score_edits
from weightspace.tasks.image_edits import IMAGE_EDITS, ImageEdit
from weightspace.tasks.network_task import Schedule
from weightspace.train import Budget, Fitted, fit_task

UNEDITED = "unedited"
"""The method that does nothing."""

_FILE = "editor.safetensors"
_SHOWN = 8
"""Networks in a picture."""
_NORMALISED = 2000
"""Training networks that the normalisation is fitted on, at the most."""


class InrEditing(Experiment):
    """Networks are fitted to images; editors change them so that they show edited images.

    Zhou et al. 2023, section 4.2, and Kofinas et al. 2024, section 4.2. All methods have the
    same networks, steps and optimiser, and canonical signs. Validation images choose the epoch.
    """

    metric: ClassVar[str] = "mse"
    unit: ClassVar[str] = "x 1e-2"
    higher_is_better: ClassVar[bool] = False

    edit: ClassVar[str]
    """A key of :data:`weightspace.tasks.image_edits.IMAGE_EDITS`."""
    images: ClassVar[str]
    """What is trained and tested on, see :func:`weightspace.zoo.data_folder.named_images`."""
    other_images: ClassVar[str | None] = None
    """What is tested on besides."""

    def methods(self, preset: Preset) -> Sequence[str]:
        """The method that does nothing, and the editors of the preset."""
        return (UNEDITED, *preset.settings["models"])

    def prepare(self, preset: Preset, folder: Path) -> None:
        """Fit the zoos."""
        self._home(preset, folder).fit(preset.settings, validation=preset.settings["validation"])
        for other in self._others(preset, folder):
            other.fit(preset.settings, validation=0.0)

    def run(self, method: str, seed: int, preset: Preset, folder: Path) -> Row:
        """Train one editor with one seed, and judge it on both test splits."""
        home, others = self._home(preset, folder), self._others(preset, folder)
        if method == UNEDITED:
            return _row(self._scores(None, home), [self._scores(None, other) for other in others])
        job = folder / "jobs" / f"{method}-{seed}"
        task, fitted = self._train(home, method, seed, preset, job)
        save_model(job / _FILE, task.editor, name=method, task={"kind": "editing"})
        elsewhere = [self._scores(task.editor, other) for other in others]
        return {
            **_row(self._scores(task.editor, home), elsewhere),
            "parameters": task.editor.parameter_count,
            "best_epoch": fitted.best_epoch,
        }

    def picture(self, preset: Preset, folder: Path, out: Path) -> None:
        """For each editor: the image, the network, the edited network, and the target."""
        for home in (self._home(preset, folder), *self._others(preset, folder)):
            for method in preset.settings["models"]:
                kept = folder / "jobs" / f"{method}-{preset.seeds[0]}" / _FILE
                if kept.is_file():
                    self._draw(kept, home, out / f"{method}-{home.name}.png")

    def _draw(self, kept: Path, home: ImageZoo, path: Path) -> None:
        from weightspace.report.image_grid import write_image_grid  # noqa: PLC0415 (slow to import)

        editor = load_model(kept).model
        assert isinstance(editor, Editor)
        rows = home.rows("test")[:_SHOWN]
        networks, originals = home.networks(rows), home.originals(rows)
        columns = {
            "image": originals,
            "network": home.render(networks).detach(),
            "edited": edited_images(editor, home.render, networks),
            "target": self._edited(originals),
        }
        write_image_grid(path, {name: images.numpy() for name, images in columns.items()})

    @property
    def _edited(self) -> ImageEdit:
        return IMAGE_EDITS[self.edit]

    def _train(
        self, home: ImageZoo, method: str, seed: int, preset: Preset, job: Path
    ) -> tuple[EditingTask, Fitted]:
        plan = preset.settings
        options = {"canonical": True, **plan["models"][method]}
        claim_job(job, home.zoo, plan, method, options)
        torch.manual_seed(seed)
        editor = make_editor(method, Requirements.of([home.zoo.spec]), options=options)
        editor.fit_normalisation(home.networks(home.rows("train")[:_NORMALISED]))
        schedule = Schedule(learning_rate=plan["learning_rate"])
        task = EditingTask(editor, home.render, schedule=schedule, seed=seed)
        size, epochs = plan["batch_size"], plan["epochs"]
        fitted = fit_task(
            task,
            home.batches("train", self._edited, batch_size=size, seed=seed),
            home.batches("val", self._edited),
            job,
            budget=Budget(epochs, size, patience=epochs, clip=plan["clip"]),
            monitor=task.monitor,
            mode=task.mode,
            progress=False,
        )
        return task, fitted

    def _scores(self, editor: Editor | None, home: ImageZoo) -> EditScores:
        return score_edits(editor, home.render, home.batches("test", self._edited))

    def _home(self, preset: Preset, folder: Path) -> ImageZoo:
        plan = preset.settings
        return ImageZoo(folder / "zoo", self.images, plan["train_images"], plan["test_images"])

    def _others(self, preset: Preset, folder: Path) -> list[ImageZoo]:
        """A zoo of other images, of which only the test split is used."""
        if self.other_images is None:
            return []
        tested = preset.settings["test_images"]
        return [ImageZoo(folder / self.other_images, self.other_images, 1, tested)]


def _row(here: EditScores, elsewhere: Sequence[EditScores]) -> Row:
    row: Row = {"mse": 100 * here.mse, "times_better": here.gain}
    for scores in elsewhere:
        row |= {"other_mse": 100 * scores.mse, "other_times_better": scores.gain}
    return row
