"""Rendering implicit networks back to images."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from weightspace.errors import ModelError
from weightspace.graph import ChainRunner, GraphSpec, State, check_state
from weightspace.zoo.coordinates import pixel_grid

_VALUES = 1 << 23
"""How many hidden values are computed at a time: 32 MB of single precision a layer."""


@torch.no_grad()
def render(
    spec: GraphSpec, state: State, height: int, width: int | None = None
) -> Float[Tensor, "networks height width channels"]:
    """Render networks with two inputs as images of any resolution.

    Coordinates are those of :func:`weightspace.zoo.coordinates.pixel_grid`. Values are not
    clipped. Memory beyond the images themselves is bounded, whatever their size.

    Args:
        spec: a chain, such as :func:`weightspace.zoo.siren.siren_spec`.
        state: the state dict of one network, or a stacked one.
        height: the images' rows.
        width: the images' columns; the same if not given.

    Raises:
        ModelError: the networks do not have two inputs.
        SpecError: the networks are not plain chains of linear layers.
        StateError: the state does not belong to the spec.

    >>> from weightspace.zoo.siren import PUBLISHED, initial_states, siren_spec
    >>> state = initial_states([2, 8, 3], PUBLISHED, [1, 2])
    >>> render(siren_spec([2, 8, 3]), state, 16).shape
    torch.Size([2, 16, 16, 3])
    """
    width = height if width is None else width
    runner = ChainRunner(spec)
    inputs = spec.nodes_in(spec.node_sets[0].name)
    if inputs != 2:
        raise ModelError(
            "spec",
            expected="networks with two inputs, the coordinates of a pixel",
            found=f"{inputs} inputs",
        )
    stacked = _stacked(spec, state)
    first = next(iter(stacked.values()))
    networks, output = first.shape[0], spec.node_sets[-1].name
    points = pixel_grid(height, width, dtype=first.dtype).to(first.device)
    images = first.new_empty(networks, len(points), spec.nodes_in(output))
    widest = max(spec.nodes_in(node_set.name) for node_set in spec.node_sets)
    rows = max(1, min(len(points), _VALUES // widest))
    count = max(1, _VALUES // (widest * rows))
    for start in range(0, networks, count):
        some = {name: tensor[start : start + count] for name, tensor in stacked.items()}
        for place in range(0, len(points), rows):
            values = runner.run_stacked(some, points[place : place + rows])[output]
            images[start : start + count, place : place + rows] = values
    return images.reshape(networks, height, width, -1)


def _stacked(spec: GraphSpec, state: State) -> State:
    """Give a single network a leading dimension, and check the state."""
    parameter = spec.parameters[0]
    tensor = state.get(parameter.name)
    single = tensor is not None and tensor.ndim == len(parameter.shape)
    stacked = {name: value[None] for name, value in state.items()} if single else state
    check_state(spec, stacked, batch=True)
    return stacked
