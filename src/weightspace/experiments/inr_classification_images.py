"""Classification of implicit networks on three sets of images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from weightspace.experiments.experiment import Preset
from weightspace.experiments.inr_classification import InrClassification

GENTLE = {"translation": 0.1, "rotation": 10.0, "scaling": 0.1, "noise": 0.02}
"""The augmentation of training networks: as far as a digit keeps its meaning."""

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
