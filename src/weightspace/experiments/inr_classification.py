"""Classification of implicit networks by what they show: every model on one zoo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from weightspace.experiments.experiment import Experiment, Preset, Row
from weightspace.tasks.augmentation import InrAugmentation
from weightspace.train import Budget
from weightspace.train.predictor import Settings, train_predictor
from weightspace.zoo import InrRecipe, Zoo, fit_inr_zoo
from weightspace.zoo.data_folder import named_images

GENTLE = {"translation": 0.1, "rotation": 10.0, "scaling": 0.1, "noise": 0.02}
"""The augmentation of training networks: as far as a digit keeps its meaning."""

_SMALL_NGT: dict[str, Any] = {
    "width": 32,
    "pair_width": 16,
    "size": 64,
    "heads": 4,
    "layers": 2,
    "node_hidden": 64,
    "pair_hidden": 32,
}
SMALL: dict[str, dict[str, Any]] = {
    "ng-gnn-probes": {},
    "ng-gnn": {},
    "ng-gnn-linear": {"width": 64},
    "ng-t-probes": _SMALL_NGT,
    "ng-t": _SMALL_NGT,
    "ng-t-edges": _SMALL_NGT,
    "dws": {},
    "nfn-np": {"width": 64},
    "nfn-hnp": {"width": 64},
    "nft": {"width": 32, "layers": 2},
    "scale-gmn": {"width": 32, "layers": 3},
    "inr2vec": {},
    "neuron-transformer": {},
    "flat-mlp": {},
    "flat-mlp-augmented": {},
    "flat-mlp-aligned": {},
    "stat-nn": {},
    "probe-only": {},
}
"""The models, and their options where the published size takes too long on two cores."""

PUBLISHED_SIZE: dict[str, dict[str, Any]] = {
    **{name: {} for name in SMALL},
    "nfn-np": {"width": 512, "head": 1000},
    "nfn-hnp": {"width": 512, "head": 1000},
    "nft": {"width": 256},
    "dws": {"aggregate": "attention"},
}
"""The models with the options that give the papers' sizes."""

_MNIST = {
    "flat-mlp": "17.55",
    "flat-mlp-augmented": "29.26",
    "flat-mlp-aligned": "58.98",
    "inr2vec": "23.69",
    "neuron-transformer": "26.57",
    "nfn-np": "78.50",
    "nfn-hnp": "79.11",
    "dws": "85.71",
    "ng-gnn": "91.40",
    "ng-t": "92.4",
    "ng-t-probes": "97.3",
    "scale-gmn": "96.57",
    "probe-only": "98.4",
}
_FASHION = {
    "flat-mlp": "19.91",
    "flat-mlp-augmented": "22.76",
    "flat-mlp-aligned": "47.79",
    "inr2vec": "22.33",
    "neuron-transformer": "26.97",
    "nfn-np": "68.19",
    "nfn-hnp": "68.94",
    "dws": "67.06",
    "ng-gnn": "68.00",
    "ng-t": "72.7",
    "ng-t-probes": "74.8",
    "scale-gmn": "80.46",
    "probe-only": "87.7",
}


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


def _plan(
    hidden: tuple[int, ...],
    *,
    steps: int,
    train_images: int | None,
    test_images: int | None,
    epochs: int,
    refits: int = 1,
    batch_size: int = 64,
) -> dict[str, Any]:
    """Two cores: small models and few networks."""
    return {
        "hidden": list(hidden),
        "steps": steps,
        "refits": refits,
        "validation": 0.1,
        "train_images": train_images,
        "test_images": test_images,
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": 2e-3,
        "sizes": "small",
        "augmentation": dict(GENTLE),
    }


def _full(steps: int = 500) -> dict[str, Any]:
    """The published corpus' size: 55,000 training, 5,000 validation, 10,000 test images."""
    return {
        **_plan((32, 32), steps=steps, train_images=None, test_images=None, epochs=100),
        "validation": 5 / 60,
        "learning_rate": 1e-3,
        "sizes": "published",
    }


class DigitsInrs(InrClassification):
    """On scikit-learn's digits, for any machine."""

    name: ClassVar[str] = "inr-classification-digits"
    task: ClassVar[str] = "Tell the digit that an implicit network shows from its weights."
    images: ClassVar[str] = "digits"
    published: ClassVar[Mapping[str, str]] = {k: f"{v} (MNIST)" for k, v in _MNIST.items()}
    presets: ClassVar[Mapping[str, Preset]] = {
        "cpu": Preset(
            data="1,797 images of scikit-learn's digits, SIRENs 2-16-16-1, two of each image.",
            time="half an hour on two cores",
            settings=_plan(
                (16, 16), steps=100, refits=2, train_images=1437, test_images=360, epochs=8
            ),
        ),
        "full": Preset(
            data="1,797 images of scikit-learn's digits, SIRENs 2-16-16-1, five of each image.",
            time="a few hours on a GPU",
            settings={
                **_plan(
                    (16, 16), steps=100, refits=5, train_images=1437, test_images=360, epochs=100
                ),
                "learning_rate": 1e-3,
                "sizes": "published",
            },
        ),
    }


class MnistInrs(InrClassification):
    """On MNIST."""

    name: ClassVar[str] = "inr-classification-mnist"
    task: ClassVar[str] = "Tell the MNIST digit that an implicit network shows from its weights."
    images: ClassVar[str] = "mnist"
    published: ClassVar[Mapping[str, str]] = _MNIST
    presets: ClassVar[Mapping[str, Preset]] = {
        "cpu": Preset(
            data="8,571 training and 1,429 test images of MNIST, SIRENs 2-32-32-1, one each.",
            time="an hour on two cores",
            settings=_plan(
                (32, 32),
                steps=200,
                train_images=8571,
                test_images=1429,
                epochs=3,
                batch_size=32,
            ),
        ),
        "large": Preset(
            data="All of MNIST (55,000, 5,000 and 10,000 images), SIRENs 2-32-32-1, one each, "
            "fitted in 100 steps.",
            time="hours on two cores for each of the larger models; take some with --method",
            settings={
                **_plan((32, 32), steps=100, train_images=None, test_images=None, epochs=5),
                "validation": 5 / 60,
            },
            seeds=(0,),
        ),
        "full": Preset(
            data="All of MNIST (55,000, 5,000 and 10,000 images), SIRENs 2-32-32-1, one each.",
            time="days on a GPU; single methods with --methods",
            settings=_full(),
        ),
    }


class FashionInrs(InrClassification):
    """On Fashion-MNIST."""

    name: ClassVar[str] = "inr-classification-fashion"
    task: ClassVar[str] = "Tell the garment that an implicit network shows from its weights."
    images: ClassVar[str] = "fashion-mnist"
    published: ClassVar[Mapping[str, str]] = _FASHION
    presets: ClassVar[Mapping[str, Preset]] = {
        "cpu": Preset(
            data="3,000 training and 1,000 test images of Fashion-MNIST, SIRENs 2-32-32-1.",
            time="half an hour on two cores",
            settings=_plan(
                (32, 32),
                steps=200,
                train_images=3000,
                test_images=1000,
                epochs=3,
                batch_size=32,
            ),
        ),
        "full": Preset(
            data="All of Fashion-MNIST that there is, SIRENs 2-32-32-1, one each.",
            time="days on a GPU; single methods with --methods",
            settings=_full(),
        ),
    }
