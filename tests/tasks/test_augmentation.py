"""Augmenting implicit networks: checked by rendering."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from weightspace.errors import ModelError
from weightspace.graph import ChainRunner, GraphSpec, chain_spec
from weightspace.tasks.augmentation import InrAugmentation, move_inputs, rotation_matrices
from weightspace.zoo.coordinates import pixel_grid
from weightspace.zoo.render import render
from weightspace.zoo.siren import TEXTBOOK, initial_states, siren_spec

SIZES = [2, 12, 9, 3]
SPEC = siren_spec(SIZES, TEXTBOOK)
NOTHING: dict[str, Any] = {"translation": 0.0, "rotation": 0.0, "scaling": 0.0, "noise": 0.0}


def states(count: int = 6, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    """Networks with frequencies high enough to tell places apart."""
    return initial_states(SIZES, TEXTBOOK, list(range(count)), dtype=dtype)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def at_points(spec: GraphSpec, state: dict[str, Tensor], index: int, points: Tensor) -> Tensor:
    """One network's values at points, as an image of one row."""
    single = {name: tensor[index] for name, tensor in state.items()}
    return ChainRunner(spec).run(single, points)[spec.node_sets[-1].name]


def test_moving_the_inputs_renders_the_original_at_moved_places() -> None:
    generator = seeded()
    matrices = torch.randn(6, 2, 2, generator=generator, dtype=torch.float64)
    shifts = torch.randn(6, 2, generator=generator, dtype=torch.float64)
    original = states()
    moved = move_inputs(SPEC, original, matrices, shifts)
    images = render(SPEC, moved, 7, 5)
    grid = pixel_grid(7, 5, dtype=torch.float64)
    for index in range(6):
        wanted = at_points(SPEC, original, index, grid @ matrices[index].T + shifts[index])
        torch.testing.assert_close(images[index].reshape(-1, 3), wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [{"translation": 0.25}, {"rotation": 45.0}, {"scaling": 0.2}],
    ids=lambda options: next(iter(options)),
)
def test_each_motion_is_what_its_name_says(options: dict[str, float]) -> None:
    """Recover the motion from the weights, check its kind and limits, then render."""
    original = states(64)
    moved = InrAugmentation(SPEC, **{**NOTHING, **options})(original, seeded())
    first, second = original["seq.0.weight"], moved["seq.0.weight"]
    matrices = torch.linalg.lstsq(first, second).solution
    bias = (moved["seq.0.bias"] - original["seq.0.bias"])[..., None]
    shifts = torch.linalg.lstsq(first, bias).solution[..., 0]
    eye = torch.eye(2, dtype=torch.float64).expand(64, 2, 2)
    drawn: Tensor
    if "translation" in options:
        torch.testing.assert_close(matrices, eye)
        drawn, limit = shifts.flatten(), 0.25
    elif "rotation" in options:
        angles = torch.atan2(matrices[:, 1, 0], matrices[:, 0, 0])
        torch.testing.assert_close(matrices, rotation_matrices(angles))
        torch.testing.assert_close(shifts, torch.zeros_like(shifts))
        drawn, limit = angles, math.radians(45.0)
    else:
        torch.testing.assert_close(matrices, matrices[:, :1, :1] * eye)
        torch.testing.assert_close(shifts, torch.zeros_like(shifts))
        drawn, limit = matrices[:, 0, 0] - 1, 0.2
    assert 0.9 * limit < drawn.abs().max() <= limit
    assert drawn.min() < -0.5 * limit < 0.5 * limit < drawn.max()
    assert len(drawn.unique()) == len(drawn)
    images = render(SPEC, moved, 5)
    for index in range(3):
        points = pixel_grid(5, 5, dtype=torch.float64) @ matrices[index].T + shifts[index]
        wanted = at_points(SPEC, original, index, points)
        torch.testing.assert_close(images[index].reshape(-1, 3), wanted, rtol=0, atol=1e-5)


def test_sign_flips_change_weights_and_no_image() -> None:
    original = states()
    flipped = InrAugmentation(SPEC, **NOTHING, sign_flips=True)(original, seeded())
    torch.testing.assert_close(render(SPEC, flipped, 6), render(SPEC, original, 6))
    for name, tensor in original.items():
        assert torch.equal(flipped[name].abs(), tensor.abs())
        changed = (flipped[name] != tensor).double().mean()
        assert (changed == 0) if name == "seq.2.bias" else (0.3 < changed < 0.7)
    assert not torch.equal(
        flipped["seq.0.bias"][0] == original["seq.0.bias"][0],
        flipped["seq.0.bias"][1] == original["seq.0.bias"][1],
    )


def test_noise_is_random_and_relative_to_each_tensor() -> None:
    original = states(50)
    noisy = InrAugmentation(SPEC, **{**NOTHING, "noise": 0.1})(original, seeded())
    for name, tensor in original.items():
        change = noisy[name] - tensor
        deviation = tensor.flatten(1).std(dim=1, correction=0)
        ratio = (change.flatten(1) / deviation[:, None]).flatten()
        assert ratio.std().item() == pytest.approx(0.1, rel=0.15), name
        assert abs(ratio.mean().item()) < 0.4 * 0.1, name


def test_noise_leaves_a_single_bias_alone() -> None:
    spec = siren_spec([2, 4, 1])
    original = initial_states([2, 4, 1], TEXTBOOK, [1, 2])
    noisy = InrAugmentation(spec, **{**NOTHING, "noise": 0.5})(original, seeded())
    assert torch.equal(noisy["seq.1.bias"], original["seq.1.bias"])
    assert not torch.equal(noisy["seq.1.weight"], original["seq.1.weight"])


def test_dropout_sets_some_weights_to_zero() -> None:
    original = states(200)
    dropped = InrAugmentation(SPEC, **NOTHING, dropout=0.05)(original, seeded())
    for name, tensor in original.items():
        gone = dropped[name] == 0
        assert gone.double().mean().item() == pytest.approx(0.05, abs=0.02), name
        assert torch.equal(dropped[name][~gone], tensor[~gone])


def test_the_generator_decides_and_the_given_tensors_stay() -> None:
    original = states(dtype=torch.float32)
    kept = {name: tensor.clone() for name, tensor in original.items()}
    augment = InrAugmentation(SPEC, dropout=0.1, sign_flips=True)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first, again, other = (augment(original, seeded(seed)) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    for name, tensor in original.items():
        assert torch.equal(tensor, kept[name])
        assert first[name].dtype == torch.float32
        assert torch.equal(first[name], again[name])
        assert not torch.equal(first[name], other[name])


def test_without_strength_nothing_changes() -> None:
    original = states()
    same = InrAugmentation(SPEC, **NOTHING)(original, seeded())
    assert all(torch.equal(same[name], tensor) for name, tensor in original.items())


def test_networks_of_other_inputs_can_be_scaled_and_moved() -> None:
    spec = chain_spec([3, 5, 1], activations="tanh")
    original = {p.name: torch.randn(4, *p.shape) for p in spec.parameters}
    augment = InrAugmentation(spec, rotation=0.0, sign_flips=True)
    assert set(augment(original, seeded())) == set(original)


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        (SPEC, {"noise": -0.1}, "noise: expected a strength in its range"),
        (SPEC, {"scaling": 1.0}, "scaling"),
        (SPEC, {"rotation": math.nan}, "rotation"),
        (chain_spec([3, 4, 1]), {}, "rotation: expected networks with two inputs, found 3"),
        (chain_spec([2, 4, 1], bias=False), {}, "translation: expected a first layer with a bias"),
        (chain_spec([2, 4, 1]), {"sign_flips": True}, "odd activations.* found relu"),
    ],
)
def test_what_does_not_fit_is_refused(
    spec: GraphSpec, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        InrAugmentation(spec, **options)
