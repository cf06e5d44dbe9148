"""Classification of implicit networks by what they show: every model on one zoo."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from weightspace.experiments.experiment import Experiment, Preset, Row
from weightspace.experiments.inr_classification_sizes import PUBLISHED_SIZE, SMALL
from weightspace.tasks.augmentation import InrAugmentation
from weightspace.train import Budget
from weightspace.train.predictor import Settings, train_predictor
from weightspace.zoo import InrRecipe, Zoo, fit_inr_zoo
from weightspace.zoo.data_folder import named_images


class InrClassification(Experiment):
    """Networks are fitted to images; models tell the image's class from the weights.

    Navon et al. 2023, section 7.2, and the papers of the other models. All methods have the
    same networks, epochs, optimiser, canonical signs and augmentation. Validation images choose
    the epoch; test networks are of images that no training network holds.
    """

    paper: ClassVar[str] = (
        "one view of the DWSNets corpus: Navon et al. 2023, Zhou et al. 2023, Kofinas et al. "
        "2024, Kalogeropoulos et al. 2024, Kahana et al. 2025; other networks and budgets, so "
        "compare orders"
    )
    metric: ClassVar[str] = "accuracy"
    unit: ClassVar[str] = "%"

    images: ClassVar[str]
    """See :func:`weightspace.zoo.data_folder.named_images`."""

    def methods(self, preset: Preset) -> Sequence[str]:
        """Every metanetwork of the registry but those that only repeat another."""
        return tuple(SMALL)

    def prepare(self, preset: Preset, folder: Path) -> None:
        """Fit the zoo."""
        plan = preset.settings
        images = named_images(self.images)
        if plan["train_images"] is not None:
            images = images.subset(plan["train_images"], plan["test_images"], seed=0)
        recipe = InrRecipe(
            hidden=tuple(plan["hidden"]),
            steps=plan["steps"],
            refits=plan["refits"],
            validation=plan["validation"],
            seed=0,
        )
        fit_inr_zoo(images, folder / "zoo", recipe=recipe)

    def run(self, method: str, seed: int, preset: Preset, folder: Path) -> Row:
        """Train one model with one seed."""
        zoo, plan = Zoo.open(folder / "zoo"), preset.settings
        sizes = PUBLISHED_SIZE if plan["sizes"] == "published" else SMALL
        settings = Settings(
            model=method,
            options={"canonical": True, **sizes[method]},
            augmentation=InrAugmentation(zoo.spec, **plan["augmentation"]),
            seed=seed,
            learning_rate=plan["learning_rate"],
            budget=Budget(
                epochs=plan["epochs"], batch_size=plan["batch_size"], patience=plan["epochs"]
            ),
            progress=False,
        )
        outcome = train_predictor(zoo, folder / "jobs" / f"{method}-{seed}", settings)
        return {
            "accuracy": 100 * outcome.tested.scores["accuracy"],
            "parameters": outcome.model.parameter_count,
            "best_epoch": outcome.fitted.best_epoch,
        }
