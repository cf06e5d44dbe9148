"""Image edits against plain loops."""

from __future__ import annotations

import pytest
import torch

from weightspace.errors import DataError
from weightspace.tasks.image_edits import IMAGE_EDITS, blurred, contrasted, dilated, eroded


def neighbourhood(images: torch.Tensor, i: int, j: int) -> torch.Tensor:
    return images[:, max(i - 1, 0) : i + 2, max(j - 1, 0) : j + 2].flatten(1, 2)


@pytest.mark.parametrize("channels", [1, 3])
def test_neighbourhoods(channels: int) -> None:
    images = torch.rand(2, 5, 6, channels)
    for i in range(5):
        for j in range(6):
            around = neighbourhood(images, i, j)
            assert torch.equal(dilated(images)[:, i, j], around.amax(dim=1))
            assert torch.equal(eroded(images)[:, i, j], around.amin(dim=1))
            torch.testing.assert_close(blurred(images)[:, i, j], around.mean(dim=1))


def test_contrast_moves_values_from_the_mean_brightness() -> None:
    images = 0.4 + 0.2 * torch.rand(3, 4, 4, 3)
    weights = torch.tensor([0.299, 0.587, 0.114])
    changed = contrasted(images, factor=1.5)
    before, after = (((x * weights).sum(-1)).flatten(1) for x in (images, changed))
    torch.testing.assert_close(before.mean(1), after.mean(1))
    torch.testing.assert_close(1.5 * before.std(1), after.std(1))
    assert contrasted(torch.tensor([0.0, 1.0]).reshape(1, 1, 2, 1)).flatten().tolist() == [0, 1]


@pytest.mark.parametrize("name", IMAGE_EDITS)
def test_every_edit_gives_images_and_leaves_the_given_ones(name: str) -> None:
    images = torch.rand(2, 6, 5, 1)
    kept = images.clone()
    edited = IMAGE_EDITS[name](images)
    assert edited.shape == images.shape
    assert 0 <= float(edited.min()) <= float(edited.max()) <= 1
    assert torch.equal(images, kept)
    assert not torch.allclose(edited, images)


def test_wrong_options_are_said() -> None:
    with pytest.raises(DataError, match="odd"):
        dilated(torch.rand(1, 4, 4, 1), size=2)
    with pytest.raises(DataError, match="1 or 3 channels"):
        contrasted(torch.rand(1, 4, 4, 2))
