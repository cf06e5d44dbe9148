"""Rendering implicit networks back to images, and evaluating them anywhere."""

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
    _require_inputs(spec, 2, "the coordinates of a pixel")
    points = pixel_grid(height, width, dtype=torch.float64)
    return evaluate(spec, state, points).reshape(-1, height, width, spec_outputs(spec))


@torch.no_grad()
def evaluate(
    spec: GraphSpec, state: State, points: Float[Tensor, "points inputs"]
) -> Float[Tensor, "networks points channels"]:
    """Evaluate implicit networks at points. Memory beyond the result is bounded.

    Args:
        spec: a chain.
        state: the state dict of one network, or a stacked one.
        points: the same for all networks.

    Raises:
        ModelError: the points have another number of coordinates than the networks' inputs.
        SpecError: the networks are not plain chains of linear layers.
        StateError: the state does not belong to the spec.
    """
    runner = ChainRunner(spec)
    _require_inputs(spec, points.shape[-1], "the coordinates of a point")
    stacked = _stacked(spec, state)
    first = next(iter(stacked.values()))
    points = points.to(first)
    networks, output = first.shape[0], spec.node_sets[-1].name
    values = first.new_empty(networks, len(points), spec_outputs(spec))
    widest = max(spec.nodes_in(node_set.name) for node_set in spec.node_sets)
    rows = max(1, min(len(points), _VALUES // widest))
    count = max(1, _VALUES // (widest * rows))
    for start in range(0, networks, count):
        some = {name: tensor[start : start + count] for name, tensor in stacked.items()}
        for place in range(0, len(points), rows):
            found = runner.run_stacked(some, points[place : place + rows])[output]
            values[start : start + count, place : place + rows] = found
    return values


def spec_inputs(spec: GraphSpec) -> int:
    """The number of a chain's inputs."""
    return spec.nodes_in(spec.node_sets[0].name)


def spec_outputs(spec: GraphSpec) -> int:
    """The number of a chain's outputs."""
    return spec.nodes_in(spec.node_sets[-1].name)


_WORDS = {1: "one input", 2: "two inputs", 3: "three inputs"}


def _require_inputs(spec: GraphSpec, wanted: int, meaning: str) -> None:
    found = spec_inputs(spec)
    if found != wanted:
        raise ModelError(
            "spec",
            expected=f"networks with {_WORDS.get(wanted, f'{wanted} inputs')}, {meaning}",
            found=f"{found} inputs",
        )


def _stacked(spec: GraphSpec, state: State) -> State:
    """Give a single network a leading dimension, and check the state."""
    parameter = spec.parameters[0]
    tensor = state.get(parameter.name)
    single = tensor is not None and tensor.ndim == len(parameter.shape)
    stacked = {name: value[None] for name, value in state.items()} if single else state
    check_state(spec, stacked, batch=True)
    return stacked
