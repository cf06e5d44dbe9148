"""Makes a small zoo of implicit networks: ``python -m tests.zoo.fitting FOLDER WORKERS``."""

from __future__ import annotations

import dataclasses
import signal
import sys
from pathlib import Path

import numpy as np

from weightspace.zoo import Zoo
from weightspace.zoo.images import ImageSet
from weightspace.zoo.inr_recipe import InrImages, fit_inr_zoo
from weightspace.zoo.signal_recipe import InrRecipe

RECIPE = InrRecipe(hidden=(8, 8), steps=100, refits=3, seed=5, validation=0.25)
SLOW = dataclasses.replace(RECIPE, steps=800)  # slow enough to be killed half way
PART = 8


def noise_images(train: int = 12, test: int = 5, *, seed: int = 0) -> ImageSet:
    """Images of noise with three labels."""
    generator = np.random.default_rng(seed)
    pixels = generator.random((train + test, 6, 6))
    labels = np.arange(train + test) % 3
    return ImageSet.of("noise", pixels[:train], labels[:train], pixels[train:], labels[train:])


def make(folder: Path, workers: int, recipe: InrRecipe = RECIPE) -> Zoo:
    """Make the zoo in small parts, or go on with it."""
    InrImages.part_size = PART
    return fit_inr_zoo(noise_images(), folder, recipe=recipe, workers=workers)


if __name__ == "__main__":
    # a shell that starts the tests in the background has it ignored, which is inherited
    signal.signal(signal.SIGINT, signal.default_int_handler)
    make(Path(sys.argv[1]), int(sys.argv[2]), SLOW)
