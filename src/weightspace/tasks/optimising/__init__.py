"""Learning to optimise: an optimiser that reads the optimised network's graph."""

from weightspace.tasks.optimising.features import Memory
from weightspace.tasks.optimising.meta import (
    HELD_OUT,
    MetaTask,
    episodes,
    learned_curve,
    optimizer_curve,
)
from weightspace.tasks.optimising.network import OptimiserNetwork
from weightspace.tasks.optimising.optimizer import GraphOptimizer
from weightspace.tasks.optimising.problems import Problems

__all__ = [
    "HELD_OUT",
    "GraphOptimizer",
    "Memory",
    "MetaTask",
    "OptimiserNetwork",
    "Problems",
    "episodes",
    "learned_curve",
    "optimizer_curve",
]
