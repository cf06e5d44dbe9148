"""SIRENs: variants, specs, initial values."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from weightspace.errors import ModelError
from weightspace.graph import ChainRunner, SymmetryGroup, check_state
from weightspace.zoo.coordinates import pixel_axis, pixel_grid
from weightspace.zoo.siren import (
    PUBLISHED,
    PUBLISHED_EXACT,
    TEXTBOOK,
    Siren,
    SirenVariant,
    initial_states,
    siren_spec,
)

SIZES = [2, 7, 5, 3]


@pytest.mark.parametrize("variant", [PUBLISHED, TEXTBOOK, SirenVariant(20.0, 7.0, offset=-1.0)])
def test_the_module_and_the_spec_compute_the_same(variant: SirenVariant) -> None:
    module = Siren(SIZES, variant, seed=3).double()
    spec = siren_spec(SIZES, variant)
    state = module.state_dict()
    check_state(spec, state)
    points = torch.rand(11, 2, dtype=torch.float64)
    values = ChainRunner(spec).run(state, points)["seq.2"]
    torch.testing.assert_close(values, module(points))


def test_the_module_computes_the_formula() -> None:
    variant = SirenVariant(w0_first=3.0, w0_hidden=2.0, offset=0.25)
    module = Siren([1, 1, 1, 1], variant)
    module.load_state_dict(
        {
            "seq.0.weight": torch.tensor([[0.5]]),
            "seq.0.bias": torch.tensor([0.1]),
            "seq.1.weight": torch.tensor([[-0.7]]),
            "seq.1.bias": torch.tensor([0.2]),
            "seq.2.weight": torch.tensor([[1.5]]),
            "seq.2.bias": torch.tensor([0.3]),
        }
    )
    first = math.sin(3.0 * (0.5 * 0.8 + 0.1))
    second = math.sin(2.0 * (-0.7 * first + 0.2))
    wanted = 1.5 * second + 0.3 + 0.25
    assert module(torch.tensor([[0.8]])).item() == pytest.approx(wanted, rel=1e-6)


def test_neurons_may_be_reordered() -> None:
    spec = siren_spec(SIZES)
    state = Siren(SIZES).double().state_dict()
    function = ChainRunner(spec).function(pixel_grid(4, 4, dtype=torch.float64))
    SymmetryGroup(spec).check(function, state).require(1e-12)


@pytest.mark.parametrize(
    ("variant", "weights", "biases"),
    [
        (PUBLISHED, [3**0.5 / 30, *[(6 / 50) ** 0.5 / 30] * 2], [0.0, 0.0, 0.0]),
        (PUBLISHED_EXACT, [3**0.5 / 30, (6 / 50) ** 0.5 / 30, 50**-0.5], [0.0, 0.0, 50**-0.5]),
        (
            TEXTBOOK,
            [0.5, (6 / 50) ** 0.5 / 30, (6 / 50) ** 0.5 / 30],
            [2**-0.5, 50**-0.5, 50**-0.5],
        ),
    ],
)
def test_initial_values_fill_their_bounds(
    variant: SirenVariant, weights: list[float], biases: list[float]
) -> None:
    states = initial_states([2, 50, 50, 1], variant, list(range(200)))
    for layer in range(3):
        for tensor, bound in (
            (states[f"seq.{layer}.weight"], weights[layer]),
            (states[f"seq.{layer}.bias"], biases[layer]),
        ):
            assert tensor.abs().max().item() == pytest.approx(bound, rel=0.03)
            assert tensor.std().item() == pytest.approx(bound / 3**0.5, rel=0.08)
            assert tensor.mean().item() == pytest.approx(0.0, abs=0.1 * bound + 1e-12)


def test_a_network_depends_on_its_own_seed_alone() -> None:
    together = initial_states(SIZES, PUBLISHED, [5, 6, 7])
    alone = initial_states(SIZES, PUBLISHED, [6])
    for name, tensor in alone.items():
        assert torch.equal(together[name][1], tensor[0])
    assert not torch.equal(together["seq.0.weight"][0], together["seq.0.weight"][1])


def test_one_initialisation_may_be_shared() -> None:
    shared = dataclasses.replace(PUBLISHED, shared_init=6)
    states = initial_states(SIZES, shared, [1, 2])
    alone = initial_states(SIZES, PUBLISHED, [6])
    for name, tensor in states.items():
        assert torch.equal(tensor[0], alone[name][0])
        assert torch.equal(tensor[1], alone[name][0])


def test_drawing_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    initial_states(SIZES, PUBLISHED, [1])
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("sizes", [[2, 1], [2], [2, 0, 1]])
def test_sizes_without_a_hidden_layer_are_refused(sizes: list[int]) -> None:
    with pytest.raises(ModelError, match="SIREN: expected an input size"):
        siren_spec(sizes)


def test_the_first_coordinate_runs_along_a_row() -> None:
    grid = pixel_grid(3, 2).reshape(3, 2, 2)
    assert grid[0, :, 0].tolist() == [-1.0, 1.0]
    assert grid[:, 0, 1].tolist() == [-1.0, 0.0, 1.0]
    assert pixel_axis(1).tolist() == [0.0]
