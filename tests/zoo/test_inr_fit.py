"""Fitting stacks of SIRENs."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor

from weightspace.errors import DataError, ModelError
from weightspace.graph import check_state
from weightspace.zoo.coordinates import pixel_grid
from weightspace.zoo.inr_fit import fit_inrs
from weightspace.zoo.render import render
from weightspace.zoo.signal_fit import FittedSignals
from weightspace.zoo.siren import PUBLISHED, TEXTBOOK, Siren, SirenVariant, siren_spec


def blobs(count: int, height: int = 7, width: int = 6, channels: int = 1) -> Tensor:
    """Smooth images, all different."""
    generator = torch.Generator().manual_seed(0)
    grid = pixel_grid(height, width)
    places = torch.rand(count, channels, 1, 2, generator=generator) - 0.5
    distance = (grid - places).square().sum(-1)
    return torch.exp(-3 * distance).reshape(count, channels, height, width).movedim(1, -1)


def alone(
    image: Tensor, seed: int, variant: SirenVariant, *, steps: int, learning_rate: float
) -> dict[str, Tensor]:
    """Fit one network the plain way."""
    height, width, channels = image.shape
    module = Siren([2, 8, 8, channels], variant, seed=seed).to(image.dtype)
    grid = pixel_grid(height, width, dtype=image.dtype)
    optimiser = torch.optim.Adam(module.parameters(), lr=learning_rate)
    for _ in range(steps):
        optimiser.zero_grad()
        ((module(grid) - image.reshape(-1, channels)) ** 2).mean().backward()
        optimiser.step()
    return module.state_dict()


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("variant", [PUBLISHED, TEXTBOOK])
def test_it_takes_the_steps_that_a_plain_loop_takes(channels: int, variant: SirenVariant) -> None:
    images = blobs(3, channels=channels).double()
    fitted = fit_inrs(
        images, seeds=[4, 5, 6], hidden=[8, 8], variant=variant, steps=20, learning_rate=1e-3
    )
    for index, seed in enumerate([4, 5, 6]):
        wanted = alone(images[index], seed, variant, steps=20, learning_rate=1e-3)
        for name, tensor in wanted.items():
            torch.testing.assert_close(fitted.state[name][index], tensor, rtol=1e-6, atol=1e-8)


def test_the_networks_show_their_images() -> None:
    images = blobs(4, height=9, width=12, channels=2)
    fitted = fit_inrs(images, seeds=range(4), hidden=[16, 16], steps=400, learning_rate=3e-3)
    spec = siren_spec([2, 16, 16, 2])
    check_state(spec, fitted.state, batch=True)
    shown = render(spec, fitted.state, 9, 12)
    error = (shown - images).square().flatten(1).mean(1)
    torch.testing.assert_close(-10 * error.log10(), fitted.psnr, rtol=0, atol=1e-3)
    assert fitted.psnr.min() > 30
    assert fitted.steps.tolist() == [400] * 4


def test_chunks_change_rounding_at_most() -> None:
    images = blobs(7)
    options: dict[str, Any] = {"seeds": list(range(7)), "hidden": [8, 8], "steps": 30}
    whole = fit_inrs(images, chunk=32, **options)
    parts = fit_inrs(images, chunk=3, **options)
    for name, tensor in whole.state.items():
        torch.testing.assert_close(parts.state[name], tensor, rtol=1e-3, atol=1e-5)


def test_the_same_call_gives_the_same_bits() -> None:
    first, second = (fit_inrs(blobs(5), seeds=range(5), hidden=[8], steps=25) for _ in range(2))
    assert_same(first, second)


def test_a_network_stops_by_itself_when_it_is_good_enough() -> None:
    images = blobs(6).double()
    options: dict[str, Any] = {"seeds": list(range(6)), "hidden": [8, 8], "learning_rate": 3e-3}
    fitted = fit_inrs(images, target_psnr=30.0, steps=500, **options)
    assert len(set(fitted.steps.tolist())) > 2
    assert 0 < fitted.steps.min() < fitted.steps.max() < 500
    for index, steps in enumerate(fitted.steps.tolist()):
        until = fit_inrs(images, steps=steps, **options)
        assert until.psnr[index] >= 30.0
        before = fit_inrs(images, steps=steps - 1, **options)
        assert before.psnr[index] < 30.0
        for name, tensor in until.state.items():
            torch.testing.assert_close(
                fitted.state[name][index], tensor[index], rtol=1e-9, atol=1e-12
            )
    torch.testing.assert_close(fitted.psnr, psnr(fitted, images), rtol=0, atol=1e-6)


def test_those_that_never_get_good_enough_use_all_steps() -> None:
    images = blobs(3)
    fitted = fit_inrs(images, seeds=range(3), hidden=[4], steps=5, target_psnr=90.0)
    assert fitted.steps.tolist() == [5, 5, 5]
    plain = fit_inrs(images, seeds=range(3), hidden=[4], steps=5)
    assert_same(fitted, plain)


def test_a_goal_below_the_start_takes_no_step() -> None:
    fitted = fit_inrs(blobs(2), seeds=[1, 2], hidden=[4], steps=5, target_psnr=0.1)
    assert fitted.steps.tolist() == [0, 0]


def test_progress_counts_every_network() -> None:
    counts: list[int] = []
    fit_inrs(blobs(7), seeds=range(7), hidden=[4], steps=1, chunk=3, progress=counts.append)
    assert counts == [3, 3, 1]


def test_a_shared_initialisation_leaves_the_images_their_differences() -> None:
    variant = dataclasses.replace(PUBLISHED, shared_init=1)
    fitted = fit_inrs(blobs(2), seeds=[1, 2], hidden=[4], steps=3, variant=variant)
    assert not torch.equal(fitted.state["seq.0.weight"][0], fitted.state["seq.0.weight"][1])


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (torch.zeros(2, 5, 5), r"found float32 of shape \(2, 5, 5\)"),
        (torch.zeros(2, 5, 5, 1, dtype=torch.uint8), "found uint8"),
        (torch.zeros(0, 5, 5, 1), r"no empty side, found shape \(0, 5, 5, 1\)"),
        (torch.zeros(2, 0, 5, 1), "no empty side"),
        (torch.full((2, 5, 5, 1), 1.5), "values in \\[0, 1\\], found values from 1.5 to 1.5"),
        (torch.full((2, 5, 5, 1), torch.nan), "found values from nan"),
    ],
)
def test_images_that_cannot_be_fitted_are_refused(images: Tensor, message: str) -> None:
    with pytest.raises(DataError, match=message):
        fit_inrs(images, seeds=[1, 2], hidden=[4])


@pytest.mark.parametrize(
    "options", [{"steps": 0}, {"learning_rate": 0.0}, {"chunk": 0}, {"hidden": []}]
)
def test_options_that_make_no_fit_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ModelError):
        fit_inrs(blobs(2), seeds=[1, 2], **{"hidden": [4], **options})


def test_every_network_needs_a_seed() -> None:
    with pytest.raises(DataError, match="one for each of 3 images, found 2"):
        fit_inrs(blobs(3), seeds=[1, 2], hidden=[4])


def assert_same(first: FittedSignals, second: FittedSignals) -> None:
    """Check that two fits are equal to the bit."""
    for name, tensor in first.state.items():
        assert torch.equal(second.state[name], tensor)
    assert torch.equal(first.error, second.error)
    assert torch.equal(first.steps, second.steps)


def psnr(fitted: FittedSignals, images: Tensor) -> Tensor:
    """The ratio measured on the rendered images."""
    spec = siren_spec([2, 8, 8, 1])
    shown = render(spec, fitted.state, *images.shape[1:3])
    return -10 * (shown - images).square().flatten(1).mean(1).log10()
