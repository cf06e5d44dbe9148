"""Published experiments, each runnable by name."""

from weightspace.experiments.experiment import Experiment, Preset, Row
from weightspace.experiments.registry import EXPERIMENTS, find_experiment
from weightspace.experiments.results import MethodResult, Results
from weightspace.experiments.running import Failure, Reproduced, reproduce

__all__ = [
    "EXPERIMENTS",
    "Experiment",
    "Failure",
    "MethodResult",
    "Preset",
    "Reproduced",
    "Results",
    "Row",
    "find_experiment",
    "reproduce",
]
