"""The DWS layer: every linear map that commutes with the permutations of hidden neurons."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weightspace.nn.matrix_step import Pool, matrix_step
from weightspace.nn.set_attention import SetAttention
from weightspace.nn.space_pooling import Aggregate, SpacePooling
from weightspace.nn.space_state import Channels, SpaceState


class DWSLayer(nn.Module):
    """Map a state of a weight space to another, equivariantly.

    Navon et al. 2023, section 4. A linear map between two tensors commutes with permutations of
    their axes if it pools some axes away, keeps those that both have, and broadcasts over the
    rest. So a matrix over two axes becomes ``y_ij = A x_ij + r_i + c_j + s``, where ``r`` is a
    map of all that lies on the first axis, ``c`` of all that lies on the second, and ``s`` of
    what lies on none, pooled from every tensor of the network, near or far. Maps are applied
    before anything is broadcast, one product for all that lies on an axis. Where both axes are
    one (a residual stream), entries also read their transposed partners, and the diagonal reads
    and is written by itself: the fifteen maps of Maron et al. 2019. With sums the maps span
    all linear equivariant ones; other aggregates are in place of the sums.

    Args:
        inputs: channels of the state that is read.
        outputs: channels of the result; of the same space.
        aggregate: how axes are pooled.
        rectify: whether a ReLU follows.
    """

    def __init__(
        self, inputs: Channels, outputs: Channels, *, aggregate: Aggregate, rectify: bool = True
    ) -> None:
        super().__init__()
        self.space, self.aggregate, self.rectify = inputs.space, aggregate, rectify
        self.outputs = outputs
        self.pooling = SpacePooling(inputs, aggregate)
        self.tied = [one == other for one, other in self.space.pairs]
        self.entries = nn.ParameterList(
            torch.empty(outs, (1 + tied) * ins)
            for ins, outs, tied in zip(inputs.matrices, outputs.matrices, self.tied, strict=True)
        )
        axes = [(sum(inputs.ends(a)), sum(outputs.ends(a))) for a in self.space.axes]
        self.axes = nn.ModuleList(nn.Linear(ins, outs, bias=False) for ins, outs in axes)
        self.none = nn.Linear(sum(inputs.summary), sum(outputs.summary))
        self.attention = nn.ModuleList(
            SetAttention(ins, max(inputs.ends(a)), outs)
            for a, (ins, outs) in zip(self.space.axes, axes, strict=True)
            if aggregate == "attention"
        )
        self._reset()

    @torch.no_grad()
    def _reset(self) -> None:
        """Keep the variance of what goes through: each of the maps that are added has its share."""
        gain = 2.0 if self.rectify else 1.0
        weights = [*self.entries, *(layer.weight for layer in self.axes), self.none.weight]
        for weight in weights:
            nn.init.normal_(weight, std=math.sqrt(gain / 4 / weight.shape[1]))
        nn.init.zeros_(self.none.bias)

    def forward(self, state: SpaceState) -> SpaceState:
        """Map a state."""
        ends, summary = self.pooling(state)
        scalars, *constants = torch.split(self.none(summary), self.outputs.summary, -1)
        fields = [axis(values) for axis, values in zip(self.axes, ends, strict=True)]
        if self.aggregate == "attention":
            fields = [
                field + attend(values)
                for field, attend, values in zip(fields, self.attention, ends, strict=True)
            ]
        parts = {
            axis: iter(torch.split(field, self.outputs.ends(axis), -1))
            for axis, field in zip(self.space.axes, fields, strict=True)
        }
        given = iter(constants)
        vectors = [
            self._activated(next(parts[axis]) + next(given).unsqueeze(1))
            for axis in self.space.axes
        ]
        matrices, pools = self._matrices(state, parts, list(given))
        return SpaceState(matrices, vectors, self._activated(scalars), pools)

    def _matrices(
        self, state: SpaceState, parts: dict[str, Iterator[Tensor]], constants: list[Tensor]
    ) -> tuple[list[Tensor], list[tuple[Tensor, Tensor]]]:
        matrices, pools = [], []
        diagonal_constants = iter(constants[len(self.space.pairs) :])
        pool: Pool = "max" if self.aggregate == "max" else "mean"
        for i, (one, other) in enumerate(self.space.pairs):
            entries, weight = state.matrices[i], self.entries[i]
            rows, columns = next(parts[one]) + constants[i].unsqueeze(1), next(parts[other])
            if not self.tied[i]:
                matrix, *pooled = matrix_step(
                    entries, weight, rows, columns, pool=pool, rectify=self.rectify
                )
            else:
                entries = torch.cat([entries, entries.transpose(1, 2)], -1)
                matrix, *_ = matrix_step(entries, weight, rows, columns, rectify=False)
                diagonal = next(parts[one]) + next(diagonal_constants).unsqueeze(1)
                matrix = self._activated(
                    matrix + torch.diag_embed(diagonal.transpose(1, 2), dim1=1, dim2=2)
                )
                pooled = [matrix.amax(d) if pool == "max" else matrix.mean(d) for d in (2, 1)]
            matrices.append(matrix)
            pools.append((pooled[0], pooled[1]))
        return matrices, pools

    def _activated(self, values: Tensor) -> Tensor:
        return F.relu(values) if self.rectify else values


def layer_size(inputs: Channels, outputs: Channels) -> int:
    """How many weights a layer between two states has, attention apart.

    >>> from weightspace.graph import chain_spec
    >>> from weightspace.nn.weight_space import WeightSpace
    >>> channels = Channels.equal(WeightSpace.of(chain_spec([2, 32, 32, 1])), 32)
    >>> layer_size(channels, channels) == 75 * 32**2
    True
    """
    space = inputs.space
    entries = sum(
        (1 + (pair[0] == pair[1])) * ins * outs
        for pair, ins, outs in zip(space.pairs, inputs.matrices, outputs.matrices, strict=True)
    )
    axes = sum(sum(inputs.ends(axis)) * sum(outputs.ends(axis)) for axis in space.axes)
    return entries + axes + sum(inputs.summary) * sum(outputs.summary)
