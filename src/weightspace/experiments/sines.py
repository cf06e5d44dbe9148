"""Self-supervised embeddings of networks of sine waves, and what a linear map reads of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch

from weightspace.experiments.claim_job import claim_job
from weightspace.experiments.experiment import Experiment, Preset, Row
from weightspace.models import Predictor, Requirements, make_model, save_model
from weightspace.tasks.augmentation import InrAugmentation
from weightspace.tasks.batches import batches, read_networks
from weightspace.tasks.contrastive import ContrastiveTask, LinearProbe, embed
from weightspace.tasks.network_task import Schedule
from weightspace.train import Budget, Fitted, fit_task
from weightspace.zoo import Zoo
from weightspace.zoo.inr_sines import inr_sines
from weightspace.zoo.recipe import make_zoo

KNOWN = ("a", "b")
"""The columns that are read from embeddings: amplitude and frequency."""

_FILE = "test.npz"
_SMALL: dict[str, dict[str, Any]] = {
    "dws": {},
    "ng-gnn-linear": {"dropout": 0.0},
    "inr2vec": {},
    "flat-mlp": {},
}
_ALL = {**_SMALL, "ng-gnn": {"dropout": 0.0}, "neuron-transformer": {}}


def _plan(**changes: Any) -> dict[str, Any]:
    return {
        "networks": 1200,
        "steps": 300,
        "models": _SMALL,
        "embedding": 16,
        "noise": 0.1,
        "dropout": 0.1,
        "epochs": 30,
        "batch_size": 64,
        "learning_rate": 3e-3,
        "clip": 10.0,
        **changes,
    }


class Sines(Experiment):
    """Two views of a network are to lie together; amplitude and frequency are read linearly.

    Navon et al. 2023, section 7.3. All methods have the same networks, views, epochs and
    optimiser, and canonical signs; labels are seen by the linear probe alone. The loss of
    validation networks chooses the epoch.
    """

    name: ClassVar[str] = "sines"
    task: ClassVar[str] = (
        "Embed networks of waves a sin(b x) without labels, then read a and b linearly."
    )
    paper: ClassVar[str] = "Navon et al. 2023, figure 5 and its text"
    metric: ClassVar[str] = "probe_mse"
    higher_is_better: ClassVar[bool] = False
    published: ClassVar[Mapping[str, str]] = {
        "flat-mlp": "7.39",
        "inr2vec": "3.86",
        "dws": "1.39",
    }
    presets: ClassVar[Mapping[str, Preset]] = {
        "cpu": Preset(
            data="1,200 SIRENs 1-32-32-1 of waves, a and b even on (0, 10), 972 to train on.",
            time="a quarter of an hour on two cores",
            settings=_plan(),
        ),
        "full": Preset(
            data="5,000 SIRENs 1-32-32-1 of waves, a and b even on (0, 10), 4,050 to train on.",
            time="hours on a GPU",
            settings=_plan(
                networks=5000, models=_ALL, epochs=500, batch_size=512, learning_rate=5e-3
            ),
        ),
    }

    def methods(self, preset: Preset) -> Sequence[str]:
        """The models of the preset."""
        return tuple(preset.settings["models"])

    def prepare(self, preset: Preset, folder: Path) -> None:
        """Fit the zoo."""
        plan = preset.settings
        make_zoo(inr_sines(count=plan["networks"], steps=plan["steps"]), folder / "zoo")

    def run(self, method: str, seed: int, preset: Preset, folder: Path) -> Row:
        """Train one model with one seed, and probe it."""
        zoo, job = Zoo.open(folder / "zoo"), folder / "jobs" / f"{method}-{seed}"
        task, fitted = self._train(zoo, method, seed, preset, job)
        save_model(job / "model.safetensors", task.model, name=method, task={"kind": "embedding"})
        seen = {split: embed(task.model, _loader(zoo, split)) for split in ("train", "test")}
        probed = LinearProbe(*seen["train"])(*seen["test"])
        embeddings, truth = seen["test"]
        np.savez(job / _FILE, embeddings=embeddings, truth=truth)
        errors = np.square(probed.predictions - truth).mean(axis=0)
        return {
            "probe_mse": probed.mse,
            **{f"mse_{name}": float(error) for name, error in zip(KNOWN, errors, strict=True)},
            "val_loss": fitted.best_score,
            "parameters": task.model.parameter_count,
            "best_epoch": fitted.best_epoch,
        }

    def picture(self, preset: Preset, folder: Path, out: Path) -> None:
        """t-SNE maps of the test networks, coloured by a and by b."""
        from weightspace.report.embedding import embedding_map, mapped_networks  # noqa: PLC0415
        from weightspace.report.value_map import write_value_maps  # noqa: PLC0415 (slow to import)

        seed, maps, values = preset.seeds[0], {}, {}
        for method in self.methods(preset):
            kept = folder / "jobs" / f"{method}-{seed}" / _FILE
            if kept.is_file():
                with np.load(kept, allow_pickle=False) as file:
                    embeddings, truth = file["embeddings"], file["truth"]
                maps[method] = embedding_map(embeddings, seed=seed)
                shown = truth[mapped_networks(len(truth), seed=seed)]
                values = {name: shown[:, place] for place, name in enumerate(KNOWN)}
        if maps:
            write_value_maps(out / "embeddings.png", maps, values)

    def _train(
        self, zoo: Zoo, method: str, seed: int, preset: Preset, job: Path
    ) -> tuple[ContrastiveTask, Fitted]:
        plan = preset.settings
        options = {"canonical": True, **plan["models"][method]}
        claim_job(job, zoo, plan, method, options)
        torch.manual_seed(seed)
        model = _make_model(zoo, method, plan["embedding"], options)
        views = InrAugmentation(
            zoo.spec,
            translation=0,
            rotation=0,
            scaling=0,
            noise=plan["noise"],
            dropout=plan["dropout"],
        )
        schedule = Schedule(learning_rate=plan["learning_rate"])
        task = ContrastiveTask(model, views, schedule=schedule, seed=seed)
        size, epochs = plan["batch_size"], plan["epochs"]
        fitted = fit_task(
            task,
            _loader(zoo, "train", size, seed),
            _loader(zoo, "val"),
            job,
            budget=Budget(epochs, size, patience=epochs, clip=plan["clip"]),
            monitor=task.monitor,
            mode=task.mode,
            progress=False,
        )
        return task, fitted


def _make_model(zoo: Zoo, method: str, outputs: int, options: dict[str, Any]) -> Predictor:
    model = make_model(method, Requirements.of([zoo.spec]), outputs=outputs, options=options)
    model.fit_normalisation(read_networks(zoo, zoo.split("train").tolist()))
    return model


def _loader(zoo: Zoo, split: str, batch_size: int = 256, seed: int | None = None) -> Any:
    rows = zoo.split(split).tolist()
    columns: list[npt.NDArray[Any]] = [zoo.column(name)[rows] for name in KNOWN]
    labels = torch.from_numpy(np.stack(columns, axis=1))
    return batches(zoo, rows, labels, batch_size=batch_size, seed=seed)
