"""What a layout finds: pieces of a folder that are read at once, and the networks in them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor

from weightspace.graph import GraphSpec


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of a folder that is read at once: a file, or some rows of an array.

    Args:
        file: its path in the folder, with ``/`` between the parts.
        rows: the first row and the one behind the last, of a file that holds an array.
    """

    file: str
    rows: tuple[int, int] | None = None


class Blueprint(Protocol):
    """How the spec of a network is made; networks with equal keys have equal specs."""

    @property
    def key(self) -> Hashable:
        """What the spec depends on: names, shapes and types, never the weights."""

    def make(self) -> GraphSpec:
        """Make the spec.

        Raises:
            WeightspaceError: the network cannot be read as a graph.
        """


@dataclass(frozen=True, eq=False)
class FoundNetwork:
    """A network as a layout reads it.

    Args:
        key: its name within its file; empty if it is alone there.
        state: its tensors.
        blueprint: how its spec is made.
        row: what the layout knows of it.
        source: what it has in common with networks that are nearly copies of it, such as the
            run whose checkpoints they are; the network itself if empty.
        notes: what was noticed while reading, such as tensors that were not taken.
    """

    key: str
    state: Mapping[str, Tensor]
    blueprint: Blueprint
    row: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    notes: tuple[str, ...] = ()
