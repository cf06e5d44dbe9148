"""Zoos: sets of trained networks on disk, and recipes that make them."""

from weightspace.zoo.splits import crossing_groups, split_by_group
from weightspace.zoo.store import Zoo
from weightspace.zoo.verify import Problem, VerifyReport, verify
from weightspace.zoo.writer import ZooWriter

__all__ = [
    "Problem",
    "VerifyReport",
    "Zoo",
    "ZooWriter",
    "crossing_groups",
    "split_by_group",
    "verify",
]
