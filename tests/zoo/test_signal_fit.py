"""Fitting SIRENs to signals at any points, against a plain loop."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from weightspace.errors import DataError, ModelError
from weightspace.zoo.domains import PixelGrid, PointSet
from weightspace.zoo.render import evaluate
from weightspace.zoo.signal_fit import Samples, fit_signals
from weightspace.zoo.siren import PUBLISHED, TEXTBOOK, Siren, SirenVariant, siren_spec


def random_samples(
    sets: int = 2, *, networks: int = 3, inputs: int = 3, channels: int = 2, shared: bool = False
) -> list[Samples]:
    """Smooth signals at random points."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for _ in range(sets):
        shape = (1 if shared else networks, 40, inputs)
        points = 2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1
        phases = torch.arange(networks * channels, dtype=torch.float64).view(networks, 1, channels)
        values = torch.sin(3 * points.sum(-1, keepdim=True) + phases)
        made.append(Samples(PointSet(points), values))
    return made


def points_of(sample: Samples, network: int) -> Tensor:
    domain = sample.domain
    assert isinstance(domain, PointSet)
    return domain.points[0 if domain.shared else network]


def alone(
    samples: list[Samples], network: int, variant: SirenVariant, rates: list[float]
) -> tuple[dict[str, Tensor], float]:
    """Fit one network the plain way; its state and its error at all points."""
    inputs, channels = samples[0].domain.inputs, samples[0].values.shape[2]
    module = Siren([inputs, 6, 5, channels], variant, seed=network).double()
    optimiser = torch.optim.Adam(module.parameters(), lr=1.0)
    for step, rate in enumerate(rates):
        sample = samples[step % len(samples)]
        optimiser.param_groups[0]["lr"] = rate
        optimiser.zero_grad()
        loss = (module(points_of(sample, network)) - sample.values[network]).square().mean()
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        errors = [
            (module(points_of(s, network)) - s.values[network]).square().mean() for s in samples
        ]
    return module.state_dict(), torch.stack(errors).mean().sqrt().item()


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("sets", [1, 3])
@pytest.mark.parametrize("final_rate", [1.0, 0.1])
def test_it_takes_the_steps_that_a_plain_loop_takes(
    shared: bool, sets: int, final_rate: float
) -> None:
    samples = random_samples(sets, shared=shared)
    fitted = fit_signals(
        samples,
        seeds=[0, 1, 2],
        hidden=[6, 5],
        variant=TEXTBOOK,
        steps=14,
        learning_rate=1e-3,
        final_rate=final_rate,
        chunk=2,
    )
    falls = [(1 + math.cos(math.pi * step / 14)) / 2 for step in range(14)]
    rates = [1e-3 * (final_rate + (1 - final_rate) * fall) for fall in falls]
    for network in range(3):
        state, error = alone(samples, network, TEXTBOOK, rates)
        assert fitted.error[network].item() == pytest.approx(error, rel=1e-7)
        for name, tensor in state.items():
            torch.testing.assert_close(fitted.state[name][network], tensor, rtol=1e-6, atol=1e-8)
    assert fitted.steps.tolist() == [14] * 3


def test_a_goal_stops_networks_that_have_points_of_their_own() -> None:
    samples = random_samples(1)
    options: dict[str, Any] = {"hidden": [8, 8], "learning_rate": 3e-3}
    fitted = fit_signals(samples, seeds=[0, 1, 2], steps=2000, target_error=0.1, **options)
    assert len(set(fitted.steps.tolist())) == 3
    for network in range(3):
        found = evaluate(
            siren_spec((3, 8, 8, 2), PUBLISHED),
            {name: tensor[network] for name, tensor in fitted.state.items()},
            points_of(samples[0], network),
        )
        error = (found[0] - samples[0].values[network]).square().mean().sqrt()
        assert error.item() == pytest.approx(fitted.error[network].item())
        assert error <= 0.1


def test_points_on_a_grid_are_the_grid() -> None:
    images = torch.rand(2, 20, 1, generator=torch.Generator().manual_seed(0)).double()
    grid = PixelGrid(4, 5)
    options: dict[str, Any] = {"seeds": [1, 2], "hidden": [6], "steps": 10}
    from weightspace.zoo.coordinates import pixel_grid

    points = PointSet(pixel_grid(4, 5, dtype=torch.float64)[None])
    first = fit_signals([Samples(grid, images)], **options)
    second = fit_signals([Samples(points, images)], **options)
    for name, tensor in first.state.items():
        torch.testing.assert_close(second.state[name], tensor)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: [], "at least one signal, found none"),
        (lambda s: [Samples(s[0].domain, s[0].values[:2])], r"one signal a seed.*\(2, 40, 2\)"),
        (lambda s: [Samples(s[0].domain, s[0].values[:, :9])], "one value a point"),
        (lambda s: [s[0], Samples(s[1].domain, s[1].values.float())], "in one type"),
        (lambda s: [Samples(s[0].domain, s[0].values * math.nan)], "finite values"),
        (
            lambda s: [s[0], Samples(PointSet(torch.zeros(1, 40, 2).double()), s[1].values)],
            "40 points of 3 coordinates each, found 40 of 2",
        ),
    ],
)
def test_samples_that_do_not_belong_together_are_refused(change: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        fit_signals(change(random_samples()), seeds=[0, 1, 2], hidden=[4], steps=2)


@pytest.mark.parametrize(
    "options", [{"steps": 0}, {"final_rate": 1.5}, {"chunk": 0}, {"target_error": 0.1}]
)
def test_options_that_make_no_fit_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ModelError):
        fit_signals(random_samples(), seeds=[0, 1, 2], **{"hidden": [4], "steps": 2, **options})
