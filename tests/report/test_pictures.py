"""Grids of images and coloured maps as files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from weightspace.errors import DataError
from weightspace.report.image_grid import write_image_grid
from weightspace.report.value_map import write_value_maps


@pytest.mark.parametrize("channels", [1, 3])
def test_a_grid_shows_every_image_in_its_place(channels: int, tmp_path: Path) -> None:
    dark, bright = np.zeros((3, 4, 6, channels)), np.full((3, 4, 6, channels), 1.5)
    write_image_grid(tmp_path / "new" / "grid.png", {"dark": dark, "bright": bright})
    with Image.open(tmp_path / "new" / "grid.png") as file:
        grid = np.asarray(file.convert("L")).astype(float)
    body = grid[grid.shape[0] // 3 :]
    left, right = np.array_split(body, 2, axis=1)
    assert np.median(left) == 0
    assert np.median(right) == 255


def test_a_map_is_drawn_for_each_value(tmp_path: Path) -> None:
    points = np.random.default_rng(0).normal(size=(20, 2))
    values = {"a": points[:, 0], "b": points[:, 1]}
    write_value_maps(tmp_path / "one.png", {"x": points}, values)
    write_value_maps(tmp_path / "two.png", {"x": points, "y": -points}, values)
    with Image.open(tmp_path / "one.png") as one, Image.open(tmp_path / "two.png") as two:
        assert two.height > 1.8 * one.height
        assert len(np.unique(np.asarray(one.convert("RGB")).reshape(-1, 3), axis=0)) > 20


def test_columns_must_agree(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="one shape"):
        write_image_grid(
            tmp_path / "g.png", {"a": np.zeros((1, 2, 2, 1)), "b": np.zeros((2, 2, 2, 1))}
        )
    with pytest.raises(DataError, match="at least one"):
        write_image_grid(tmp_path / "g.png", {})
    with pytest.raises(DataError, match="as many values"):
        write_value_maps(tmp_path / "m.png", {"x": np.zeros((3, 2))}, {"a": np.zeros(2)})
