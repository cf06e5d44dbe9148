"""What runs the parts of long commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from weightspace.zoo import Engine

EngineName = Literal["local", "ray"]


def make_engine(name: EngineName, workers: int) -> Engine:
    """Processes of this machine, or tasks of a Ray cluster.

    Args:
        name: which.
        workers: how many at a time; 0 for one each core.

    Raises:
        ModelError: Ray is not installed, or the number is out of its range.
    """
    if name == "local":
        from weightspace.zoo.recipe import LocalPool

        return LocalPool(workers)
    from weightspace.zoo.ray_engine import RayEngine

    return RayEngine(workers)
