"""The recipe of implicit networks of sounds: spoken digits as functions of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float

from weightspace.errors import require_between
from weightspace.graph import GraphSpec
from weightspace.zoo.audio import SpokenDigits, load_spoken_digits
from weightspace.zoo.coordinates import pixel_axis
from weightspace.zoo.data_folder import data_file
from weightspace.zoo.domains import PointSet
from weightspace.zoo.signal_fit import FittedSignals, Samples
from weightspace.zoo.signal_measures import signal_to_noise
from weightspace.zoo.signal_recipe import Columns, InrRecipe, SignalRecipe, split_names
from weightspace.zoo.siren import SirenVariant

SHIPPED = "audio/fsdd_300.npz"
"""The recordings that are taken if none are named, in the data folder."""

TEST_TAKE = 4
"""From this take on recordings are for testing: every digit of every speaker."""

SECONDS = 0.5
FREQUENCY = 2000.0
"""The first layer's frequency for each second of sound. Sitzmann et al. 2020, section 4.2, use 3000
for seven seconds and far larger networks; for half a second 1000 gives 24 dB, 500 and 3000 17
and 7 dB."""

VARIANT = SirenVariant(
    w0_first=FREQUENCY * SECONDS,
    first="fan_in",
    bias="linear",
    output_bias="linear",
    offset=0.0,
    shared_init=0,
)
"""The textbook's, from one initialisation: with so many frequencies drawn at random, networks that
do not share them cannot be compared by their weights."""

SETTINGS = InrRecipe(
    hidden=(64, 64), variant=VARIANT, steps=300, learning_rate=3e-3, final_rate=0.02
)


@dataclass(frozen=True, eq=False)
class InrAudio(SignalRecipe):
    """SIRENs fitted to the start of spoken digits, time from -1 to 1, loudest value 1.

    Further columns: ``label`` (the digit), ``speaker``, ``speaker_label``, ``take``, ``loudest``
    (what a clip was divided by), and of the fit ``error`` (root mean square) and ``snr`` (dB).
    Takes from the fifth on are for testing.

    Args:
        recordings: the spoken digits.
        seconds: how much of each; silence follows shorter ones.
        settings: how to fit.
    """

    name: ClassVar[str] = "inr-audio"
    part_size: ClassVar[int] = 16
    recordings: SpokenDigits
    seconds: float = SECONDS
    settings: InrRecipe = field(default_factory=lambda: SETTINGS)

    def __post_init__(self) -> None:
        require_between("seconds", self.seconds, 2 / self.recordings.rate, 60.0)

    @property
    def length(self) -> int:
        """How many samples a clip has."""
        return round(self.seconds * self.recordings.rate)

    def ends(self) -> tuple[int, int]:
        """Time, and the pressure at that time."""
        return 1, 1

    def columns(self) -> Columns:
        """Number, split, digit, speaker and take of each clip."""
        clips, settings = self.recordings, self.settings
        names = sorted(set(clips.speaker))
        return {
            "source": list(clips.sources),
            "split": split_names(
                clips.digit,
                test=[take >= TEST_TAKE for take in clips.take],
                validation=settings.validation,
                seed=settings.seed,
            ),
            "label": list(clips.digit),
            "speaker": list(clips.speaker),
            "speaker_label": [names.index(name) for name in clips.speaker],
            "take": list(clips.take),
            "loudest": [clips.clip(number, self.length)[1] for number in range(len(clips))],
        }

    def signals(self, places: Sequence[int]) -> AudioSignals:
        """Some of the clips."""
        clips = [self.recordings.clip(place, self.length)[0] for place in places]
        return AudioSignals(np.stack(clips))

    def data(self) -> dict[str, Any]:
        """The recordings' name and hash, and what part of them is taken."""
        clips = self.recordings
        names = {"class_names": list(map(str, range(10))), "speakers": sorted(set(clips.speaker))}
        return {
            "audio": {
                "name": clips.name,
                "sha256": clips.sha256,
                "clips": len(clips),
                "rate": clips.rate,
                "samples": self.length,
                **names,
            },
            "domain": {"low": -1.0, "high": 1.0, "points": self.length},
        }


@dataclass(frozen=True, eq=False)
class AudioSignals:
    """Clips as signals.

    Args:
        clips: values from -1 to 1.
    """

    clips: Float[npt.NDArray[np.float32], "networks samples"]

    def samples(self) -> list[Samples]:
        """All of a clip at once."""
        time = pixel_axis(self.clips.shape[1])[None, :, None]
        return [Samples(PointSet(time), torch.from_numpy(self.clips)[:, :, None])]

    def measures(self, spec: GraphSpec, fitted: FittedSignals) -> Columns:
        """The root mean squared error, and the signal-to-noise ratio in dB."""
        return signal_to_noise(self.samples()[0].values, fitted)


def inr_audio(
    *,
    seed: int = 0,
    file: str | None = None,
    seconds: float = SECONDS,
    clips: int | None = None,
    validation: float = 0.1,
    hidden: tuple[int, ...] = SETTINGS.hidden,
    steps: int = SETTINGS.steps,
    learning_rate: float = SETTINGS.learning_rate,
) -> InrAudio:
    """SIRENs of spoken digits, with digit and speaker as labels.

    Args:
        seed: of the choice of clips and of those for validation.
        file: an .npz file of recordings; 300 of the Free Spoken Digit Dataset if not given.
        seconds: how much of each clip.
        clips: how many, chosen at random; all if not given.
        validation: the share of the clips that are not for testing.
        hidden: sizes of the hidden layers.
        steps: updates of each network.
        learning_rate: of Adam, at first; it falls to a fiftieth.
    """
    recordings = load_spoken_digits(data_file(SHIPPED) if file is None else Path(file))
    if clips is not None:
        recordings = recordings.subset(clips, seed=seed)
    settings = replace(
        SETTINGS,
        variant=replace(VARIANT, w0_first=FREQUENCY * seconds),
        seed=seed,
        validation=validation,
        hidden=hidden,
        steps=steps,
        learning_rate=learning_rate,
    )
    return InrAudio(recordings, seconds, settings)
