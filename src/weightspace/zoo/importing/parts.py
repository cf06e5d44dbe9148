"""Parts of a zoo out of the files that its networks come from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from weightspace.errors import FileError, WeightspaceError
from weightspace.graph import GraphSpec
from weightspace.zoo.importing.found import FoundNetwork, Unit
from weightspace.zoo.importing.layout import Layout
from weightspace.zoo.importing.states import digest_of
from weightspace.zoo.importing.survey import Entry, read_unit
from weightspace.zoo.shards import spec_tensors

PART_NETWORKS = 1024
PART_BYTES = 32 << 20


def divide(entries: Sequence[Entry], specs: dict[str, GraphSpec]) -> Iterator[tuple[int, int]]:
    """Divide networks, which are in order of their specs, into parts of bounded size."""
    first = 0
    while first < len(entries):
        spec = specs[entries[first].spec]
        width = sum(p.numel * getattr(torch, p.dtype).itemsize for p in spec_tensors(spec))
        limit = max(1, min(PART_NETWORKS, PART_BYTES // max(1, width)))
        last = first
        while last < min(len(entries), first + limit) and entries[last].spec == entries[first].spec:
            last += 1
        yield first, last
        first = last


class PartReader:
    """Reads the networks of parts, each file for neighbouring parts once.

    Args:
        layout: how units are read.
        units: what the entries of the survey refer to.
    """

    def __init__(self, layout: Layout, units: Sequence[Unit]) -> None:
        self.layout, self.units = layout, units
        self._recent: tuple[int, list[FoundNetwork]] = (-1, [])

    def stacked(self, spec: GraphSpec, entries: Sequence[Entry]) -> dict[str, Tensor]:
        """Read a part's networks again, into one tensor for each parameter.

        Raises:
            FileError: a file was changed since the survey.
        """
        stacked = {
            p.name: torch.empty((len(entries), *p.shape), dtype=getattr(torch, p.dtype))
            for p in spec_tensors(spec)
        }
        wanted: dict[int, dict[str, int]] = {}
        for place, entry in enumerate(entries):
            wanted.setdefault(entry.unit, {})[entry.key] = place
        for number, keys in wanted.items():
            left = dict(keys)
            for network in self._networks(number):
                place = left.pop(network.key, -1)
                if place < 0:
                    continue
                if digest_of(spec, network.state) != entries[place].sha256:
                    raise _changed(self.layout.folder, entries[place])
                for name, tensor in stacked.items():
                    tensor[place] = network.state[name]
            if left:
                raise _changed(self.layout.folder, entries[next(iter(left.values()))])
        return stacked

    def _networks(self, number: int) -> Sequence[FoundNetwork]:
        """The networks of a unit; the last one is kept, as the next part may need it too."""
        if self._recent[0] != number:
            self._recent = (number, [])
            with contextlib.suppress(WeightspaceError):  # it was reported by the survey
                for network in read_unit(self.layout, self.units[number]):
                    self._recent[1].append(network)
        return self._recent[1]


def _changed(folder: Path, entry: Entry) -> FileError:
    return FileError(
        folder / entry.file,
        expected="the weights that were there when the folder was looked at",
        found="others",
        hint="The file was changed meanwhile: run the command again.",
    )
