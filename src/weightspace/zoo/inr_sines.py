"""The recipe of implicit networks of sine waves ``a sin(b x)``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float

from weightspace.errors import require_between
from weightspace.graph import GraphSpec
from weightspace.zoo.domains import PointSet
from weightspace.zoo.signal_fit import FittedSignals, Samples
from weightspace.zoo.signal_measures import signal_to_noise
from weightspace.zoo.signal_recipe import Columns, InrRecipe, SignalRecipe, random_split
from weightspace.zoo.siren import PUBLISHED

LARGEST = 10.0
"""Amplitudes and frequencies are drawn evenly between 0 and this."""

POINTS = 256
"""How many points from -pi to pi a wave is sampled at: 25 for each period of the fastest."""

VARIANT = replace(PUBLISHED, offset=0.0)
SETTINGS = InrRecipe(variant=VARIANT, steps=300, learning_rate=1e-2, final_rate=0.02)


@dataclass(frozen=True)
class InrSines(SignalRecipe):
    """SIRENs fitted to ``a sin(b x)`` on ``[-pi, pi]``, as in Navon et al. 2023, section 7.

    Further columns: ``a``, ``b``, and of the fit ``error`` (root mean square) and ``snr`` (dB).

    Args:
        count: how many waves.
        test: the share of them for testing.
        settings: how to fit.
    """

    name: ClassVar[str] = "inr-sines"
    count: int = 1000
    test: float = 0.1
    settings: InrRecipe = field(default_factory=lambda: SETTINGS)

    def __post_init__(self) -> None:
        require_between("count", self.count, 1, 100_000_000)

    def ends(self) -> tuple[int, int]:
        """One coordinate, one value."""
        return 1, 1

    def columns(self) -> Columns:
        """Number, split, amplitude and frequency of each wave."""
        seed = self.settings.seed
        draws = [np.random.default_rng([seed, n]).uniform(0, LARGEST, 2) for n in range(self.count)]
        return {
            "source": list(range(self.count)),
            "split": random_split([0] * self.count, test=self.test, settings=self.settings),
            "a": [float(a) for a, _ in draws],
            "b": [float(b) for _, b in draws],
        }

    def signals(self, places: Sequence[int]) -> SineSignals:
        """Some of the waves."""
        known = self.known
        pairs = [(known["a"][place], known["b"][place]) for place in places]
        return SineSignals(np.asarray(pairs, dtype=np.float64))

    def data(self) -> dict[str, Any]:
        """Where the waves are drawn from."""
        waves = {"formula": "a sin(b x)", "count": self.count, "test": self.test}
        domain = {"low": -math.pi, "high": math.pi, "points": POINTS}
        return {"waves": {**waves, "largest": LARGEST}, "domain": domain}


@dataclass(frozen=True, eq=False)
class SineSignals:
    """Waves as signals.

    Args:
        pairs: amplitude and frequency of each.
    """

    pairs: Float[npt.NDArray[Any], "networks 2"]

    def samples(self) -> list[Samples]:
        """All points at once."""
        x = np.linspace(-math.pi, math.pi, POINTS)
        values = self.pairs[:, :1] * np.sin(self.pairs[:, 1:] * x)
        points = torch.from_numpy(x.astype(np.float32))[None, :, None]
        return [Samples(PointSet(points), torch.from_numpy(values.astype(np.float32))[:, :, None])]

    def measures(self, spec: GraphSpec, fitted: FittedSignals) -> Columns:
        """The root mean squared error, and the signal-to-noise ratio in dB."""
        return signal_to_noise(self.samples()[0].values, fitted)


def inr_sines(
    *,
    seed: int = 0,
    count: int = 1000,
    test: float = 0.1,
    validation: float = 0.1,
    refits: int = 1,
    hidden: tuple[int, ...] = SETTINGS.hidden,
    steps: int = SETTINGS.steps,
    learning_rate: float = SETTINGS.learning_rate,
) -> InrSines:
    """SIRENs of waves a sin(b x), with a and b as labels.

    Args:
        seed: of every random choice.
        count: how many waves.
        test: the share of the waves for testing.
        validation: the share of the others for validation.
        refits: networks for each wave.
        hidden: sizes of the hidden layers.
        steps: updates of each network.
        learning_rate: of Adam, at first; it falls to a fiftieth.
    """
    settings = replace(
        SETTINGS,
        seed=seed,
        validation=validation,
        refits=refits,
        hidden=hidden,
        steps=steps,
        learning_rate=learning_rate,
    )
    return InrSines(count, test, settings)
