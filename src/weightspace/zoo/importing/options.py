"""How a folder is taken in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from weightspace.graph import GraphSpec

Duplicates = Literal["once", "mark"]


@dataclass(frozen=True)
class ImportOptions:
    """How a folder is taken in.

    Args:
        layout: the name of its layout, or ``auto``.
        labels: a CSV or JSON file of labels.
        splits: a file of splits; the one in the folder, where a layout has one, if None.
        activation: of every network's hidden layers, where the files do not tell.
        duplicates: ``once`` leaves out networks whose weights an earlier one has; ``mark``
            keeps them, with the earlier one's name in the column ``duplicate_of``.
        specs: of networks that names and shapes do not tell, such as those of modules; a
            network with the tensors of one of them is of that spec.
        workers: processes that read files.
    """

    layout: str = "auto"
    labels: Path | None = None
    splits: Path | None = None
    activation: str | None = None
    duplicates: Duplicates = "once"
    specs: tuple[GraphSpec, ...] = ()
    workers: int = 1
