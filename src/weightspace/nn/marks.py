"""Which neurons of a batch may be multiplied by signs, and which by positive numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.graph.caches import lasting
from weightspace.graph.rescaled import rescaled
from weightspace.nn.arrangement import Arrangement, Rows
from weightspace.nn.pieces import Direction

Mark = float | Tensor
"""1 where a factor acts, else 0: a number if it is the same for all."""


@dataclass(frozen=True, eq=False)
class Marks:
    """The freedoms of all nodes of a batch.

    Args:
        sign: 1 for nodes that signs multiply.
        scale: 1 for nodes that positive numbers multiply.
    """

    sign: Float[Tensor, "nodes 1"]
    scale: Float[Tensor, "nodes 1"]

    @property
    def plain(self) -> Float[Tensor, "nodes 1"]:
        """1 for nodes that nothing multiplies."""
        return (1 - self.sign) * (1 - self.scale)

    def at(self, way: Direction) -> tuple[Mark, Mark]:
        """Sign and scale of a direction's receivers, ready for broadcasting over its edges."""
        run = way.run
        rows = run.source if way.index else run.target
        shape = (run.lead, 1, run.sources, 1) if way.index else (run.lead, run.targets, 1, 1)
        return _mark(self.sign, rows, shape), _mark(self.scale, rows, shape)


@lru_cache(maxsize=64)
@lasting
def marks_of(arrangement: Arrangement) -> Marks:
    """The marks of a batch; kept with its arrangement."""
    freedoms = [rescaled(spec).freedoms for spec in arrangement.specs]
    found = [freedoms[s.part][s.place] for s in arrangement.sections]
    sizes = torch.tensor([s.count * s.neurons for s in arrangement.sections])
    columns = [[float(f.sign) for f in found], [float(f.scale) for f in found]]
    sign, scale = (torch.tensor(c).repeat_interleave(sizes).unsqueeze(1) for c in columns)
    return Marks(sign, scale)


@lru_cache(maxsize=64)
@lasting
def weighed_channels(arrangement: Arrangement, channels: int) -> Float[Tensor, "nodes channels"]:
    """1 for the feature channels that their node's factor multiplies.

    Args:
        arrangement: of the batch.
        channels: at least as many as any node has.
    """
    rows = []
    for section in arrangement.sections:
        own = rescaled(arrangement.specs[section.part]).freedoms[section.place].channels
        row = torch.zeros(channels)
        row[: len(own)] = torch.tensor(own, dtype=torch.float32)
        rows.append(row.expand(section.count * section.neurons, channels))
    return torch.cat(rows)


@lru_cache(maxsize=64)
@lasting
def senders_of(arrangement: Arrangement, against: int) -> Float[Tensor, "nodes 1"]:
    """How many connections end (or, against, start) at each node."""
    ones = torch.zeros(arrangement.received_count, 1)
    for run in arrangement.runs:
        ones[run.at_source if against else run.at_target] = float(
            run.targets if against else run.sources
        )
    return arrangement.merge(ones)


def _mark(values: Tensor, rows: Rows, shape: tuple[int, ...]) -> Mark:
    chosen = values[rows]
    if bool((chosen == chosen[0]).all()):
        return float(chosen[0])
    return chosen.view(shape)
