"""Pictures of solids."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weightspace.errors import ModelError
from weightspace.graph import GraphSpec, chain_spec
from weightspace.zoo.render_solids import render_slices, render_solids
from weightspace.zoo.siren import siren_spec

# (|x| + |y| + |z| - size) / sqrt(3), no more than the distance to an octahedron, by ReLUs.
SPEC = chain_spec([3, 6, 1], activations="relu")


def octahedra(*sizes: float, at: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> dict[str, Tensor]:
    """Networks of octahedra around a point."""
    weights = torch.cat([torch.eye(3), -torch.eye(3)])
    names = [parameter.name for parameter in SPEC.parameters]
    values = [weights, -weights @ torch.tensor(at), torch.full((1, 6), 3**-0.5)]
    state = {
        name: value.expand(len(sizes), *value.shape)
        for name, value in zip(names, values, strict=False)
    }
    return {**state, names[3]: -torch.tensor(sizes)[:, None] * 3**-0.5}


def blue(pictures: Tensor) -> Tensor:
    """Where a picture shows the solid: what is bluer than red."""
    return pictures[..., 2] > pictures[..., 0] + 0.08


def solid(picture: Tensor) -> Tensor:
    """Where a picture shows anything but its corner's colour."""
    return (picture - picture[0, 0]).abs().amax(-1) > 0.02


def test_a_slice_shows_what_is_inside() -> None:
    pictures = render_slices(SPEC, octahedra(0.5, 0.9, at=(0.2, 0.4, 0.0)), 81)
    assert pictures.shape == (2, 81, 81, 3)
    y, x = torch.meshgrid(torch.linspace(1, -1, 81), torch.linspace(-1, 1, 81), indexing="ij")
    for picture, size in zip(pictures, (0.5, 0.9), strict=True):
        distance = (x - 0.2).abs() + (y - 0.4).abs() - size
        clear = distance.abs() > 0.12
        assert torch.equal(blue(picture)[clear], (distance < 0)[clear])
        border = picture[distance.abs() < 0.01]
        assert (border.mean(-1) < 0.2).float().mean() > 0.9


def test_a_slice_may_lie_deeper() -> None:
    state = octahedra(0.5)
    middle, deeper, beyond = (
        blue(render_slices(SPEC, state, 41, depth=depth)).sum() for depth in (0.0, 0.3, 0.6)
    )
    assert middle > deeper > beyond == 0


def test_solids_are_seen_where_they_are() -> None:
    sizes = (0.3, 0.6)
    pictures = render_solids(SPEC, octahedra(*sizes), 60)
    assert pictures.shape == (2, 60, 60, 3)
    assert float(pictures.min()) >= 0
    assert float(pictures.max()) <= 1
    areas = [int(solid(picture).sum()) for picture in pictures]
    assert areas[1] / areas[0] == pytest.approx(4, rel=0.15)
    rows, columns = solid(pictures[1]).nonzero().double().mean(0).tolist()
    assert abs(rows - 29.5) < 1.5
    assert abs(columns - 29.5) < 1.5
    higher = solid(render_solids(SPEC, octahedra(0.3, at=(0.0, 0.5, 0.0)), 60)[0])
    assert higher.nonzero().double().mean(0)[0] < 24


def test_one_network_is_a_stack_of_one() -> None:
    state = octahedra(0.4)
    alone = {name: tensor[0] for name, tensor in state.items()}
    assert torch.equal(render_solids(SPEC, alone, 20), render_solids(SPEC, state, 20))
    assert torch.equal(render_slices(SPEC, alone, 20), render_slices(SPEC, state, 20))


def test_nothing_to_see_is_paper() -> None:
    picture = render_solids(SPEC, octahedra(-0.2), 16)[0]
    assert len(picture.reshape(-1, 3).unique(dim=0)) == 1


@pytest.mark.parametrize("spec", [siren_spec([2, 4, 1]), siren_spec([4, 4, 1])])
def test_other_networks_are_refused(spec: GraphSpec) -> None:
    state = {p.name: torch.zeros(1, *p.shape) for p in spec.parameters}
    for show in (render_solids, render_slices):
        with pytest.raises(ModelError, match="three inputs"):
            show(spec, state, 8)
