"""DWSNet and NFN on dense tensors, plainly."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from plain_layers import PlainReference, by_layer, fourier, weights
from weightspace.nn import DWSLayer, Networks, NFLayer


class PlainDWS(PlainReference):
    """The model of :class:`weightspace.models.DWSNet` with maxima, where no axes are tied."""

    def pooled(self, networks: Networks) -> Tensor:
        """All weights and biases, pooled over all that permutes."""
        trunk = self.model.trunk
        matrices, vectors, scalars, _ = trunk.first.lift(trunk.space.read(networks.normal.parts))
        for layer in trunk.layers:
            matrices, vectors, scalars = _dws_layer(layer, matrices, vectors, scalars)
        return _summary(matrices, vectors, scalars)


def _dws_layer(
    layer: DWSLayer, matrices: list[Tensor], vectors: list[Tensor], scalars: Tensor
) -> tuple[list[Tensor], list[Tensor], Tensor]:
    space, outputs = layer.space, layer.outputs
    ends = {axis: [vector] for axis, vector in zip(space.axes, vectors, strict=True)}
    for (one, other), matrix in zip(space.pairs, matrices, strict=True):
        ends[one].append(matrix.amax(2))
        ends[other].append(matrix.amax(1))
    parts = {
        axis: list(torch.split(linear(torch.cat(ends[axis], -1)), outputs.ends(axis), -1))
        for axis, linear in zip(space.axes, layer.axes, strict=True)
    }
    constants = torch.split(layer.none(_summary(matrices, vectors, scalars)), outputs.summary, -1)
    count = 1 + len(vectors)
    new_vectors = [
        F.relu(parts[axis].pop(0) + constant.unsqueeze(1))
        for axis, constant in zip(space.axes, constants[1:count], strict=True)
    ]
    new_matrices = []
    for i, (one, other) in enumerate(space.pairs):
        entries = F.linear(matrices[i], layer.entries[i])
        rows, columns = parts[one].pop(0).unsqueeze(2), parts[other].pop(0).unsqueeze(1)
        constant = constants[count + i].unsqueeze(1).unsqueeze(1)
        new_matrices.append(F.relu(entries + rows + columns + constant))
    return new_matrices, new_vectors, F.relu(constants[0])


def _summary(matrices: list[Tensor], vectors: list[Tensor], scalars: Tensor) -> Tensor:
    return torch.cat(
        [scalars, *(v.amax(1) for v in vectors), *(m.amax((1, 2)) for m in matrices)], -1
    )


class PlainNFN(PlainReference):
    """The model of :class:`weightspace.models.NFNNP`."""

    def pooled(self, networks: Networks) -> Tensor:
        """The means of each layer's weights and biases."""
        trunk = self.model.trunk
        blocks = [fourier(trunk.of_edges, layer) for layer in weights(networks)]
        biases = by_layer(networks, fourier(trunk.of_nodes, networks.node_features(1)))[1:]
        given = by_layer(networks, trunk.positions(networks))
        for place, layer in enumerate(trunk.layers):
            blocks, biases = _nfn_layer(layer, blocks, biases, None if place else given)
        return _means(blocks, biases)


def _nfn_layer(
    layer: NFLayer, blocks: list[Tensor], biases: list[Tensor], given: list[Tensor] | None
) -> tuple[list[Tensor], list[Tensor]]:
    incoming, own, outgoing = _ends(layer, blocks, biases, given)
    constants = layer.means(_means(blocks, biases)).unflatten(-1, (-1, layer.outputs))
    new_blocks = []
    for i, block in enumerate(blocks):
        rows, columns = incoming[i].unsqueeze(2), outgoing[i].unsqueeze(1)
        constant = constants[:, i].unsqueeze(1).unsqueeze(1)
        new_blocks.append(F.relu(F.linear(block, layer.entries[i]) + rows + columns + constant))
    new_biases = [
        F.relu(bias + constants[:, len(blocks) + i].unsqueeze(1)) for i, bias in enumerate(own)
    ]
    return new_blocks, new_biases


def _ends(
    layer: NFLayer, blocks: list[Tensor], biases: list[Tensor], given: list[Tensor] | None
) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """What neurons give to their incoming weights, biases and outgoing weights."""
    found: tuple[list[Tensor], ...] = [], [], []
    for i in range(len(blocks) + 1):
        parts = [blocks[i - 1].mean(2), biases[i - 1]] if i > 0 else []
        parts += [blocks[i].mean(1)] if i < len(blocks) else []
        mapped = layer.ends[i](torch.cat(parts, -1)).split(layer.outputs, -1)
        ports = [port for port, wanted in enumerate((i > 0, i > 0, i < len(blocks))) if wanted]
        for port, value in zip(ports, mapped, strict=True):
            more = 0 if given is None else given[i].split(layer.outputs, -1)[port]
            found[port].append(value + more)
    return found[0], found[1], found[2]


def _means(blocks: list[Tensor], biases: list[Tensor]) -> Tensor:
    return torch.cat([*(b.mean((1, 2)) for b in blocks), *(b.mean(1) for b in biases)], -1)
