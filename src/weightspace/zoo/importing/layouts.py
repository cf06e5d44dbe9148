"""The layouts by name, and how the right one is found."""

from __future__ import annotations

from pathlib import Path

from weightspace.errors import DataError
from weightspace.zoo.importing.checkpoints import Checkpoints
from weightspace.zoo.importing.dwsnets import DwsNets
from weightspace.zoo.importing.layout import Layout
from weightspace.zoo.importing.listing import walk
from weightspace.zoo.importing.ray_trials import RayTrials
from weightspace.zoo.importing.sb3 import Sb3Agents
from weightspace.zoo.importing.small_cnn_zoo import SmallCnnZoo
from weightspace.zoo.importing.wild_park import WildPark

LAYOUTS: dict[str, type[Layout]] = {
    kind.name: kind for kind in (SmallCnnZoo, WildPark, RayTrials, DwsNets, Sb3Agents, Checkpoints)
}
"""In the order in which they are tried: the most particular first, any folder last."""


def choose_layout(name: str, folder: Path) -> type[Layout]:
    """The layout of a name; the first that fits the folder for ``auto``.

    Raises:
        DataError: there is no such layout.
    """
    if name == "auto":
        files = walk(folder)
        return next(kind for kind in LAYOUTS.values() if kind.fits(folder, files))
    if name not in LAYOUTS:
        raise DataError("layout", expected=f"auto, {', '.join(LAYOUTS)}", found=repr(name))
    return LAYOUTS[name]
