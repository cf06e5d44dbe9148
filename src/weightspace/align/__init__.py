"""Bringing networks to one another, and making one of several."""

from weightspace.align.alignment import Alignment, align_activations, align_weights
from weightspace.align.barrier import Path, loss_path
from weightspace.align.frames import Frame
from weightspace.align.merging import (
    Average,
    Merge,
    Slerp,
    TaskArithmetic,
    merge_states,
    repair_statistics,
)
from weightspace.align.pruning import Pruned, keep_neurons, prune, weight_norms
from weightspace.align.redundancy import (
    Dead,
    Duplicates,
    dead_neurons,
    duplicate_neurons,
)
from weightspace.align.removal import remove_redundant

__all__ = [
    "Alignment",
    "Average",
    "Dead",
    "Duplicates",
    "Frame",
    "Merge",
    "Path",
    "Pruned",
    "Slerp",
    "TaskArithmetic",
    "align_activations",
    "align_weights",
    "dead_neurons",
    "duplicate_neurons",
    "keep_neurons",
    "loss_path",
    "merge_states",
    "prune",
    "remove_redundant",
    "repair_statistics",
    "weight_norms",
]
