"""Sweeps: graphs x seeds x networks x images, trained and kept in one table of runs."""

from weightspace.train.sweeping.data import SweepData, sweep_data
from weightspace.train.sweeping.networks import (
    CnnNetwork,
    MlpNetwork,
    ModuleNetwork,
    SweepNetwork,
)
from weightspace.train.sweeping.sources import read_graphs
from weightspace.train.sweeping.sweep import Sweep, SweepSummary, run_sweep
from weightspace.train.sweeping.training import Training
from weightspace.train.sweeping.wired import CONTROLS, Wired, controls, wirings

__all__ = [
    "CONTROLS",
    "CnnNetwork",
    "MlpNetwork",
    "ModuleNetwork",
    "Sweep",
    "SweepData",
    "SweepNetwork",
    "SweepSummary",
    "Training",
    "Wired",
    "controls",
    "read_graphs",
    "run_sweep",
    "sweep_data",
    "wirings",
]
