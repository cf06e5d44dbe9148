"""Rendering implicit networks."""

from __future__ import annotations

import sys

import pytest
import torch

from weightspace.errors import ModelError, SpecError, StateError
from weightspace.graph import GraphSpec, chain_spec
from weightspace.zoo.render import render
from weightspace.zoo.siren import PUBLISHED, Siren, initial_states, siren_spec

SIZES = [2, 9, 6, 3]


@pytest.mark.parametrize("limit", [1, 40, 1 << 23])
def test_every_pixel_is_the_network_at_its_place(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["weightspace.zoo.render"], "_VALUES", limit)
    spec = siren_spec(SIZES)
    states = initial_states(SIZES, PUBLISHED, [1, 2, 3], dtype=torch.float64)
    images = render(spec, states, 4, 5)
    assert images.shape == (3, 4, 5, 3)
    for index in range(3):
        module = Siren(SIZES).double()
        module.load_state_dict({name: tensor[index] for name, tensor in states.items()})
        for row in range(4):
            for column in range(5):
                point = torch.tensor([[column / 2 - 1, row / 1.5 - 1]], dtype=torch.float64)
                torch.testing.assert_close(images[index, row, column], module(point)[0])


def test_one_network_is_a_stack_of_one() -> None:
    module = Siren(SIZES)
    spec = siren_spec(SIZES)
    stacked = {name: tensor[None] for name, tensor in module.state_dict().items()}
    image = render(spec, module.state_dict(), 6)
    assert image.shape == (1, 6, 6, 3)
    assert torch.equal(image, render(spec, stacked, 6))


def test_a_finer_image_holds_the_coarser_one() -> None:
    spec, states = siren_spec(SIZES), initial_states(SIZES, PUBLISHED, [1, 2])
    coarse, fine = render(spec, states, 5, 4), render(spec, states, 9, 7)
    torch.testing.assert_close(fine[:, ::2, ::2], coarse, rtol=0, atol=1e-5)


def test_other_activations_render_as_well() -> None:
    spec = chain_spec([2, 4, 1], activations="relu", bias=False)
    state = {p.name: torch.ones(p.shape) for p in spec.parameters}
    assert render(spec, state, 2)[0, :, :, 0].tolist() == [[0.0, 0.0], [0.0, 8.0]]


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        (chain_spec([3, 4, 1]), ModelError, "two inputs, the coordinates of a pixel, found 3"),
        (siren_spec([2, 5, 1]), StateError, "another architecture"),
    ],
)
def test_networks_that_cannot_be_rendered_are_refused(
    spec: GraphSpec, error: type[Exception], message: str
) -> None:
    states = initial_states([2, 4, 1], PUBLISHED, [1])
    with pytest.raises(error, match=message):
        render(spec, states, 4)


def test_only_chains_are_rendered() -> None:
    spec = siren_spec([2, 4, 1])
    tangled = GraphSpec(spec.axes, spec.node_sets, spec.blocks[::-1], spec.parameters)
    with pytest.raises(SpecError, match="a plain chain"):
        render(tangled, initial_states([2, 4, 1], PUBLISHED, [1]), 4)
