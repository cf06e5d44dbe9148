"""Corruptions: the same for a seed, worse with severity, and what their names say."""

from __future__ import annotations

import pytest
import torch

from weightspace.errors import DataError, ModelError
from weightspace.zoo.corruptions import CORRUPTIONS, SEVERITIES, Corruption
from weightspace.zoo.images import digits_images

RANDOM = {"gaussian_noise", "rotation", "translation", "occlusion"}


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return digits_images().train[:40].movedim(-1, 1).repeat_interleave(3, 2).repeat_interleave(3, 3)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_images_stay_images_and_depend_on_the_seed_alone(name: str, images: torch.Tensor) -> None:
    before = images.clone()
    spoilt = Corruption(name, severity=3, seed=4)(images)
    assert spoilt.shape == images.shape
    assert spoilt.dtype == images.dtype
    assert float(spoilt.min()) >= 0
    assert float(spoilt.max()) <= 1
    assert torch.equal(images, before)
    assert torch.equal(spoilt, Corruption(name, severity=3, seed=4)(images))
    other = Corruption(name, severity=3, seed=5)(images)
    assert torch.equal(spoilt, other) == (name not in RANDOM)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_colours_are_spoilt_more_with_each_severity(name: str) -> None:
    places = torch.linspace(0, 1, 24)
    waves = [(torch.sin(7 * places[:, None] + k * places) + 1) / 2.5 for k in (3, 9, 14)]
    images = torch.stack(waves).expand(50, 3, 24, 24) + 0.1
    changes = [
        float((Corruption(name, severity=s)(images) - images).square().mean()) for s in SEVERITIES
    ]
    assert changes[0] > 1e-6
    assert changes == sorted(changes)


def test_they_do_what_their_names_say(images: torch.Tensor) -> None:
    torch.testing.assert_close(Corruption("inversion", severity=5)(images), 1 - images)
    grey = torch.full((2000, 1, 4, 4), 0.5)
    noise = Corruption("gaussian_noise", severity=2)(grey)
    assert float(noise.std()) == pytest.approx(0.1, rel=0.05)
    mean = images.mean((1, 2, 3))
    contrast = Corruption("contrast", severity=4)(images)
    torch.testing.assert_close(contrast.mean((1, 2, 3)), mean)
    point = torch.zeros(1, 1, 21, 21)
    point[0, 0, 10, 10] = 1
    blurred = Corruption("blur", severity=3)(point)
    assert float(blurred.sum()) == pytest.approx(1, abs=1e-5)
    spread = ((torch.arange(21) - 10.0) ** 2 * blurred[0, 0].sum(0)).sum()
    assert float(spread.sqrt()) == pytest.approx(1.2, rel=0.05)
    square = Corruption("occlusion", severity=3)(torch.zeros(30, 1, 20, 20))
    assert (square == 0.5).sum((1, 2, 3)).tolist() == [36] * 30
    pixels = Corruption("pixelation", severity=5)(images)
    assert torch.unique(pixels[5]).numel() <= 36


def test_turns_and_shifts_move_a_point_as_far_as_they_say() -> None:
    point = torch.zeros(200, 1, 41, 41)
    point[:, 0, 20, 33:36] = 1
    rows, columns = torch.meshgrid(torch.arange(41.0), torch.arange(41.0), indexing="ij")

    def centre(moved: torch.Tensor) -> torch.Tensor:
        mass = moved[:, 0] / moved.sum((1, 2, 3))[:, None, None]
        return torch.stack([(mass * rows).sum((1, 2)), (mass * columns).sum((1, 2))], 1) - 20

    turned = centre(Corruption("rotation", severity=2)(point))
    torch.testing.assert_close(turned.norm(dim=1), torch.full((200,), 14.0), atol=0.3, rtol=0)
    angles = torch.rad2deg(torch.atan2(turned[:, 0], turned[:, 1]))
    assert 25 < float(angles.max()) < 32
    assert -32 < float(angles.min()) < -25
    shifted = centre(Corruption("translation", severity=1)(point)) - torch.tensor([0.0, 14.0])
    torch.testing.assert_close(shifted.norm(dim=1), torch.full((200,), 2.05), atol=0.1, rtol=0)


def test_large_sets_are_spoilt_like_their_beginnings(images: torch.Tensor) -> None:
    many = images[:1].expand(1500, -1, -1, -1)
    torch.testing.assert_close(
        Corruption("translation")(many)[:1000], Corruption("translation")(many[:1000])
    )
    assert Corruption("blur")(images[:0]).shape == images[:0].shape


def test_bad_requests_are_refused(images: torch.Tensor) -> None:
    with pytest.raises(ModelError, match="corruption: expected one of gaussian_noise"):
        Corruption("fog")
    with pytest.raises(ModelError, match="severity"):
        Corruption("blur", severity=6)
    with pytest.raises(DataError, match="images to corrupt"):
        Corruption("blur")(images[0])
    with pytest.raises(DataError, match="1 or 3 channels"):
        Corruption("jpeg")(torch.zeros(1, 2, 8, 8))
