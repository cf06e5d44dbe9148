"""Pictures of solids that networks hold as signed distances."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from weightspace.graph import GraphSpec, State
from weightspace.zoo.coordinates import pixel_grid
from weightspace.zoo.render import evaluate

Distance = Callable[[Float[Tensor, "points 3"]], Float[Tensor, " points"]]

STEPS = 80
_VIEW = (-0.55, -0.5, -1.0)
_LIGHT = (0.5, 0.9, 0.55)
_SIDE = 1.25
"""Half the picture's side in space."""

_CLOSE = 2e-3
_CAUTION = 0.8
"""Share of the distance that a ray goes: networks' distances are not exact."""

_PAPER = (0.96, 0.965, 0.97)
_CLAY = (0.36, 0.58, 0.80)
_INSIDE, _OUTSIDE, _LINE = (0.25, 0.55, 0.85), (0.93, 0.62, 0.30), (0.1, 0.12, 0.15)


def render_solids(
    spec: GraphSpec, state: State, size: int
) -> Float[Tensor, "networks size size 3"]:
    """Show solids in parallel light from above: where rays first meet them, shaded.

    Rays go on by what the network says is the distance (sphere tracing, Hart 1996), within the
    cube from -1 to 1, outside of which the network knows nothing. The second axis points up.

    Args:
        spec: a chain with three inputs, and the signed distance as first output.
        state: the state dict of one network, or a stacked one.
        size: pixels a side.

    Returns:
        Colours from 0 to 1.

    Raises:
        ModelError: the networks do not have three inputs.
    """
    return torch.stack([_trace(distance, size) for distance in _distances(spec, state)])


def render_slices(
    spec: GraphSpec, state: State, size: int, *, depth: float = 0.0
) -> Float[Tensor, "networks size size 3"]:
    """Show the signed distance in a plane: blue inside, orange outside, with lines of height.

    The plane is that of the first two axes, the second upwards.

    Args:
        spec: a chain with three inputs, and the signed distance as first output.
        state: the state dict of one network, or a stacked one.
        size: pixels a side.
        depth: the third coordinate.

    Returns:
        Colours from 0 to 1.

    Raises:
        ModelError: the networks do not have three inputs.
    """
    plane = pixel_grid(size, size)
    points = torch.cat([plane[:, :1], -plane[:, 1:], torch.full_like(plane[:, :1], depth)], 1)
    values = evaluate(spec, state, points)[..., 0].reshape(-1, size, size)
    return _height_colours(values, spacing=0.1, pixel=2 / size)


def _distances(spec: GraphSpec, state: State) -> list[Distance]:
    first = spec.parameters[0]
    tensor = state[first.name]
    count = 1 if tensor.ndim == len(first.shape) else len(tensor)

    def one(number: int) -> Distance:
        own = state if count == 1 else {n: t[number : number + 1] for n, t in state.items()}
        return lambda points: evaluate(spec, own, points)[0, :, 0]

    return [one(number) for number in range(count)]


def _trace(distance: Distance, size: int) -> Float[Tensor, "size size 3"]:
    ahead, right, up = _camera()
    plane = pixel_grid(size, size) * _SIDE
    origin = plane[:, :1] * right - plane[:, 1:] * up - 4 * ahead
    near, far = _cube(origin, ahead)
    place = near.clone()
    alive = near < far
    hit = torch.zeros_like(alive)
    for _ in range(STEPS):
        rays = alive.nonzero()[:, 0]
        if not len(rays):
            break
        found = distance(origin[rays] + place[rays, None] * ahead)
        hit[rays] = found < _CLOSE
        place[rays] += torch.where(found < _CLOSE, 0.0, _CAUTION * found.clamp_min(_CLOSE))
        alive[rays] = ~hit[rays] & (place[rays] < far[rays])
    picture = torch.tensor(_PAPER).expand(size * size, 3).clone()
    points = origin[hit] + place[hit, None] * ahead
    if len(points):
        picture[hit] = _shaded(distance, points, ahead)
    return picture.reshape(size, size, 3)


def _shaded(distance: Distance, points: Tensor, ahead: Tensor) -> Float[Tensor, "points 3"]:
    """Clay in the light of a lamp and of the sky."""
    offsets = 5e-3 * torch.eye(3)
    slopes = [distance(points + offset) - distance(points - offset) for offset in offsets]
    normals = F.normalize(torch.stack(slopes, 1), dim=1)
    lamp = (normals @ F.normalize(torch.tensor(_LIGHT), dim=0)).clamp_min(0)
    sky = 0.5 + 0.5 * normals[:, 1]
    rim = (1 + normals @ ahead).clamp(0, 1) ** 3
    light = 0.25 + 0.2 * sky + 0.65 * lamp - 0.15 * rim
    return (light[:, None] * torch.tensor(_CLAY) * 1.25).clamp(0, 1)


def _camera() -> tuple[Tensor, Tensor, Tensor]:
    ahead = F.normalize(torch.tensor(_VIEW), dim=0)
    right = F.normalize(torch.linalg.cross(ahead, torch.tensor((0.0, 1.0, 0.0))), dim=0)
    return ahead, right, torch.linalg.cross(right, ahead)


def _cube(origin: Tensor, ahead: Tensor) -> tuple[Tensor, Tensor]:
    """Where rays enter and leave the cube from -1 to 1."""
    ends = torch.stack([(-1 - origin) / ahead, (1 - origin) / ahead])
    return ends.amin(0).amax(1), ends.amax(0).amin(1)


def _height_colours(
    values: Float[Tensor, "networks size size"], *, spacing: float, pixel: float
) -> Float[Tensor, "networks size size 3"]:
    sides = torch.where((values < 0)[..., None], torch.tensor(_INSIDE), torch.tensor(_OUTSIDE))
    depth = (values.abs() / 0.8).clamp(0, 1)[..., None]
    colours = sides * (0.35 + 0.65 * depth) + 0.65 * (1 - depth) * torch.tensor(_PAPER)
    # Lines are as thick everywhere, however steep the values are.
    down, across = torch.gradient(values, spacing=pixel, dim=(1, 2))
    thickness = pixel * torch.hypot(down, across).clamp_min(1e-3)
    phase = (values / spacing) % 1
    lines = torch.minimum(phase, 1 - phase) * spacing < 0.5 * thickness
    colours = torch.where(lines[..., None], 0.8 * colours, colours)
    border = values.abs() < 1.2 * thickness
    return torch.where(border[..., None], torch.tensor(_LINE), colours).clamp(0, 1)
