"""The experiments by name."""

from __future__ import annotations

from weightspace.errors import ModelError, similar_name
from weightspace.experiments.contrast import Contrast
from weightspace.experiments.dilation import Dilation
from weightspace.experiments.domain_adaptation import DomainAdaptation
from weightspace.experiments.experiment import Experiment
from weightspace.experiments.generalisation_cnn_zoo import SmallCnnGeneralisation
from weightspace.experiments.generalisation_transformers import TransformerGeneralisation
from weightspace.experiments.generalisation_wild_park import WildParkGeneralisation
from weightspace.experiments.inr_classification_images import DigitsInrs, FashionInrs, MnistInrs
from weightspace.experiments.learned_optimiser import LearnedOptimiser
from weightspace.experiments.merging import CnnMerging, MlpMerging
from weightspace.experiments.sines import Sines

_ALL: tuple[type[Experiment], ...] = (
    DigitsInrs,
    MnistInrs,
    FashionInrs,
    Dilation,
    Contrast,
    Sines,
    DomainAdaptation,
    SmallCnnGeneralisation,
    WildParkGeneralisation,
    TransformerGeneralisation,
    LearnedOptimiser,
    MlpMerging,
    CnnMerging,
)
EXPERIMENTS: dict[str, type[Experiment]] = {experiment.name: experiment for experiment in _ALL}
"""All experiments that ``weightspace reproduce`` knows."""


def find_experiment(name: str) -> Experiment:
    """An experiment by its name.

    Raises:
        ModelError: there is none of this name.
    """
    if name not in EXPERIMENTS:
        raise ModelError(
            "experiment",
            expected=f"one of {', '.join(EXPERIMENTS)}",
            found=repr(name),
            hint=similar_name(name, EXPERIMENTS),
        )
    return EXPERIMENTS[name]()
