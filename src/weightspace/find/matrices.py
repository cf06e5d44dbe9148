"""The matrices and vectors of a network in the order of computation, in a form free of scales."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.find.freeing import freed
from weightspace.find.network import Network
from weightspace.graph import EdgeBlock, GraphSpec, Piece, canonical_scales
from weightspace.graph.layout import piece_grid

HUGE = 2**22
"""Values from which on a network is described in single precision, to save memory."""


class Layer(NamedTuple):
    """A matrix, and the vectors of the neurons that it enters.

    Args:
        weights: one matrix for each group; one alone for dense layers. The columns of a
            convolution are channels and kernel positions.
        vectors: trained values of the neurons, such as biases, one after the other.
    """

    weights: Float[Tensor, "groups rows columns"]
    vectors: Float[Tensor, " values"]


class Parts(NamedTuple):
    """What a network consists of.

    Args:
        layers: in the order of computation.
        diagonals: the values of connections from neuron to neuron, such as the scales of norms.
    """

    layers: list[Layer]
    diagonals: list[Tensor]


def parts_of(network: Network) -> Parts:
    """Divide a network into matrices and vectors, in double precision if it is not huge.

    Neurons that may be scaled, or may be for all that is known, are brought to incoming weights
    of norm one first (:func:`weightspace.graph.canonical_scales`). Without a known structure,
    every tensor is a matrix from its first dimension to all others.
    """
    values = {n: t for n, t in network.state.items() if t.is_floating_point()}
    if sum(tensor.numel() for tensor in values.values()) <= HUGE:
        values = {name: tensor.double() for name, tensor in values.items()}
    if network.spec is None:
        return _by_shapes(network, values)
    spec = freed(network.spec, ("scale",))
    stacked = {name: tensor[None] for name, tensor in network.state.items()}
    stacked |= {name: tensor[None] for name, tensor in values.items()}
    form = canonical_scales(spec, stacked)
    layers, diagonals = [], []
    for block in spec.blocks:
        for piece in block.pieces:
            grid = piece_grid(piece, form[piece.parameter])[0]
            if block.kind == "diagonal" and piece.features == 1:
                diagonals.append(grid.flatten())
            else:
                layers.append(Layer(_matrix(piece, grid), _vectors(spec, block, form)))
    return Parts([layer for layer in layers if layer.weights.numel()], diagonals)


def _matrix(piece: Piece, grid: Tensor) -> Tensor:
    """A piece's values with groups first, rows of targets, columns of sources and features."""
    order: list[int] = []
    sizes = []
    for sides in (("shared",), ("target",), ("source", "feature")):
        places = [i for i, factor in enumerate(piece.factors) if factor.side in sides]
        order += places
        sizes.append(math.prod(piece.factors[i].size for i in places))
    return grid.permute(order).reshape(sizes)


def _vectors(spec: GraphSpec, block: EdgeBlock, form: dict[str, Tensor]) -> Tensor:
    """The trained values of the neurons that a block enters."""
    found = [
        piece_grid(piece, form[piece.parameter]).double().flatten()
        for piece in spec.node_set(block.target).pieces
        if not spec.parameter(piece.parameter).buffer
    ]
    return torch.cat([*found, torch.zeros(0, dtype=torch.float64)])


def _by_shapes(network: Network, values: dict[str, Tensor]) -> Parts:
    layers, diagonals = [], []
    for name in network.names():
        tensor = values.get(name)
        if tensor is None or not tensor.numel():
            continue
        if tensor.ndim > 1:
            layers.append(Layer(tensor.flatten(1)[None], tensor.new_zeros(0)))
        else:
            diagonals.append(tensor.flatten())
    return Parts(layers, diagonals)


def matrix_names(network: Network) -> Iterator[str]:
    """The names of the tensors that connect neurons with others: no biases, norms, statistics."""
    for name in network.names():
        tensor = network.state[name]
        if tensor.is_floating_point() and tensor.ndim > 1 and tensor.numel():
            yield name
